// The kernels of the GPU engine that measures sparse gradients. As
// dense_cuda-inl.cuh to be compiled with -fmad=false.
#ifndef TF_OPT_CC_ENGINES_MEASURE_SPARSE_CUDA_INL_CUH_
#define TF_OPT_CC_ENGINES_MEASURE_SPARSE_CUDA_INL_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/cuda-inl.cuh"
#include "tf_opt/cc/engines/dense_gpu_launch.h"
#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/engines/gpu_sort.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/measure_cuda-inl.cuh"
#include "tf_opt/cc/engines/measure_sparse_gpu.h"
#include "tf_opt/cc/engines/measure_sparse_gpu_launch.h"

namespace tf_opt {

template <typename T>
__global__ void __launch_bounds__(kCudaThreads)
    MeasureSparseGpuTiles(const __grid_constant__ GpuMeasuredTables<T> batch,
                          const __grid_constant__ GpuSortedEntries entries,
                          GpuMeasureArguments arguments, bool lazy,
                          Measure* tiles) {
  const int32_t k = blockIdx.x * kCudaWarps + threadIdx.x / kWarpThreads;
  const int thread = threadIdx.x % kWarpThreads;
  if (k >= batch.tables.tiles()) return;
  const Measure measure = AddWarp(GpuSparseTileThread<CudaConvert, T>::Run(
      batch, entries, arguments, lazy, k, thread));
  if (thread == 0) tiles[batch.tables.first_tile + k] = measure;
}

template <typename T>
const char* MeasureSparseGradientsGpu(
    const std::vector<MeasuredTensor<T>>& tables,
    const std::vector<GpuSlices>& slices, bool lazy,
    const GpuMeasureArguments& arguments, void* workspace, void* stream) {
  const MeasureSparseWorkspace<T> parts(tables, slices);
  bool* const valid = parts.valid(workspace);
  if (const char* error =
          CopyOnGpu(valid, arguments.enabled, sizeof(bool), stream)) {
    return error;
  }
  const auto batches = PlanGpuSlices(slices);
  std::vector<GpuSortedEntries> sorted;
  if (const char* error = SortOnGpu(batches, {arguments.enabled, valid, false},
                                    parts.sort(workspace), stream, &sorted)) {
    return error;
  }
  const auto measured = PlanGpuMeasures<T, kGpuTables>(tables);
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const GpuMeasuredTables<T> batch = {batches[b], measured[b]};
    if (batch.tables.tiles() > 0) {
      MeasureSparseGpuTiles<T>
          <<<CudaBlocksOfWarps(batch.tables.tiles()), kCudaThreads, 0,
             static_cast<cudaStream_t>(stream)>>>(batch, sorted[b], arguments,
                                                  lazy, parts.tiles(workspace));
      if (const char* error = CudaLaunchError()) return error;
    }
    if (const char* error = AddTilesOnGpu(batch.tables, arguments,
                                          parts.tiles(workspace), stream)) {
      return error;
    }
  }
  return nullptr;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_MEASURE_SPARSE_CUDA_INL_CUH_
