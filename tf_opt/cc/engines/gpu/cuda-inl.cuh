// The kernels of the GPU engines.
//
// To be compiled with -fmad=false: then they give the bits of the CPU engines,
// but for subnormal results, which the CPU flushes to zero. It costs no time,
// as the kernels wait for memory.
#ifndef TF_OPT_CC_ENGINES_GPU_CUDA_INL_CUH_
#define TF_OPT_CC_ENGINES_GPU_CUDA_INL_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/gpu/measure_gpu.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

constexpr int kCudaThreads = 256;
// Blocks that a multiprocessor holds at once, which leaves 64 registers for a
// thread. Enough are there to wait for memory while others compute.
constexpr int kCudaBlocks = 4;

constexpr int kCudaWarps = kCudaThreads / kWarpThreads;

// Blocks for so many threads.
inline int CudaBlocks(int64_t threads) {
  return static_cast<int>((threads + kCudaThreads - 1) / kCudaThreads);
}

inline int CudaBlocksOfWarps(int64_t warps) {
  return CudaBlocks(warps * kWarpThreads);
}

struct CudaConvert {
  __device__ static float Widen(Half x) {
    return __half2float(__ushort_as_half(x.bits));
  }
  __device__ static float Widen(BFloat16 x) {
    return __bfloat162float(__ushort_as_bfloat16(x.bits));
  }
  __device__ static float Widen(float x) { return x; }
  __device__ static double Widen(double x) { return x; }

  __device__ static Half Narrow(float x, Half) {
    // The conversions have a NaN of their own.
    if (x != x) return {kHalfNan};
    return {__half_as_ushort(__float2half_rn(x))};
  }
  __device__ static BFloat16 Narrow(float x, BFloat16) {
    if (x != x) return {kBFloat16Nan};
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
  }
  __device__ static float Narrow(float x, float) { return CanonicalNan(x); }
  __device__ static double Narrow(double x, double) { return CanonicalNan(x); }
};

// What went wrong with the last launch.
inline const char* CudaLaunchError() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

template <typename Rule>
__global__ void MakeGpuRules(const __grid_constant__ GpuInputsOf<Rule> inputs,
                             GpuRules<Rule> rules, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) rules.Compute(inputs, i);
}

template <typename T, typename Rule>
__global__ void __launch_bounds__(kCudaThreads, kCudaBlocks)
    ApplyGpuBatch(const __grid_constant__ GpuBatch<DenseTensor<T>> batch,
                  GpuRules<Rule> rules) {
  GpuThread<CudaConvert, T, Rule>::Run(batch, rules, blockIdx.x, threadIdx.x,
                                       blockDim.x);
}

template <typename T, typename Rule>
const char* ApplyDenseGpu(const std::vector<DenseTensor<T>>& tensors,
                          const GpuInputsOf<Rule>& inputs, void* workspace,
                          void* stream) {
  if (tensors.empty()) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const GpuRules<Rule> rules(workspace);
  MakeGpuRules<Rule>
      <<<CudaBlocks(tensors.size()), kCudaThreads, 0, cuda_stream>>>(
          inputs, rules, tensors.size());
  if (const char* error = CudaLaunchError()) return error;
  for (const auto& batch : PlanGpuBatches(tensors)) {
    if (batch.tiles() == 0) continue;
    ApplyGpuBatch<T, Rule>
        <<<batch.tiles(), kCudaThreads, 0, cuda_stream>>>(batch, rules);
    if (const char* error = CudaLaunchError()) return error;
  }
  return nullptr;
}

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
    MeasureGpuTiles(const __grid_constant__ GpuBatch<MeasuredTensor<T>> batch,
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
    AddGpuTiles(const __grid_constant__ GpuBatch<MeasuredTensor<T>> batch,
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
  for (const auto& batch : PlanGpuBatches(tensors)) {
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

#endif  // TF_OPT_CC_ENGINES_GPU_CUDA_INL_CUH_
