// The kernels of the GPU engine that measures gradients. As dense_cuda-inl.cuh
// to be compiled with -fmad=false.
#ifndef TF_OPT_CC_ENGINES_GPU_MEASURE_CUDA_INL_CUH_
#define TF_OPT_CC_ENGINES_GPU_MEASURE_CUDA_INL_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/gpu/cuda-inl.cuh"
#include "tf_opt/cc/engines/gpu/measure_gpu.h"
#include "tf_opt/cc/engines/gpu/measure_gpu_launch.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// The measure of a warp's lanes, for its first thread: what AddLanes<kLanes>
// would make of them. A lane half of them further on is another thread's until
// there are no more lanes than one thread has.
__device__ inline Measure AddWarp(GpuLanes lanes) {
  constexpr unsigned kAll = 0xffffffff;
  for (int threads = kWarpThreads / 2; threads > 0; threads /= 2) {
    for (int j = 0; j < kLanesPerThread; ++j) {
      lanes.sums[j] += __shfl_down_sync(kAll, lanes.sums[j], threads);
    }
  }
  const bool finite = __all_sync(kAll, lanes.finite);
  return {AddLanes<kLanesPerThread>(lanes.sums), finite};
}

template <typename T>
__global__ void __launch_bounds__(kCudaThreads)
    MeasureGpuTiles(const __grid_constant__ GpuMeasureBatch<T> batch,
                    GpuMeasureArguments arguments, Measure* tiles) {
  const int32_t k = blockIdx.x * kCudaWarps + threadIdx.x / kWarpThreads;
  const int thread = threadIdx.x % kWarpThreads;
  if (k >= batch.tiles()) return;
  const Measure measure =
      AddWarp(GpuTileThread<CudaConvert, T>::Run(batch, arguments, k, thread));
  if (thread == 0) tiles[batch.first_tile + k] = measure;
}

template <typename T>
__global__ void __launch_bounds__(kCudaThreads)
    AddGpuTiles(const __grid_constant__ GpuMeasureBatch<T> batch,
                GpuMeasureArguments arguments, const Measure* tiles) {
  const int i = blockIdx.x * kCudaWarps + threadIdx.x / kWarpThreads;
  const int thread = threadIdx.x % kWarpThreads;
  if (i >= batch.count) return;
  const Measure measure =
      AddWarp(AddTilesInThread(tiles + batch.first_tile + batch.begin(i),
                               batch.ends[i] - batch.begin(i), thread));
  if (thread != 0) return;
  arguments.sums_of_squares[batch.first + i] =
      CanonicalNan(measure.sum_of_squares);
  arguments.finite[batch.first + i] = measure.finite;
}

template <typename T>
const char* MeasureGradientsGpu(const std::vector<MeasuredTensor<T>>& tensors,
                                const GpuMeasureArguments& arguments,
                                void* workspace, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const auto tiles = static_cast<Measure*>(workspace);
  for (const auto& batch : PlanGpuMeasures(tensors)) {
    if (batch.tiles() > 0) {
      MeasureGpuTiles<T>
          <<<CudaBlocksOfWarps(batch.tiles()), kCudaThreads, 0, cuda_stream>>>(
              batch, arguments, tiles);
      if (const char* error = CudaLaunchError()) return error;
    }
    AddGpuTiles<T>
        <<<CudaBlocksOfWarps(batch.count), kCudaThreads, 0, cuda_stream>>>(
            batch, arguments, tiles);
    if (const char* error = CudaLaunchError()) return error;
  }
  return nullptr;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_MEASURE_CUDA_INL_CUH_
