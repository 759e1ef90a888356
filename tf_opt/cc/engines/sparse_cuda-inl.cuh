// The kernels of the sparse GPU engine. As dense_cuda-inl.cuh to be compiled
// with -fmad=false.
#ifndef TF_OPT_CC_ENGINES_SPARSE_CUDA_INL_CUH_
#define TF_OPT_CC_ENGINES_SPARSE_CUDA_INL_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/cuda-inl.cuh"
#include "tf_opt/cc/engines/dense_cuda-inl.cuh"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/gpu_rules.h"
#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/engines/gpu_sort.h"
#include "tf_opt/cc/engines/sparse_gpu.h"
#include "tf_opt/cc/engines/sparse_gpu_launch.h"

namespace tf_opt {

template <typename T, typename Rule>
__global__ void __launch_bounds__(kCudaThreads)
    ApplyGpuRows(const __grid_constant__ GpuTableBatch<T, Rule::kSlots> batch,
                 const __grid_constant__ GpuSortedEntries entries,
                 GpuRules<Rule> rules, bool lazy) {
  using Thread = GpuRowThread<CudaConvert, T, Rule>;
  const int64_t count = Thread::Warps(batch, lazy);
  const int64_t warps = int64_t{gridDim.x} * kCudaWarps;
  int64_t warp = int64_t{blockIdx.x} * kCudaWarps + threadIdx.x / kWarpThreads;
  for (; warp < count; warp += warps) {
    Thread::Run(batch, entries, rules, lazy, warp, threadIdx.x % kWarpThreads);
  }
}

template <typename T, typename Rule>
const char* ApplySparseGpu(
    const std::vector<DenseTensor<T, Rule::kSlots>>& tables,
    const std::vector<GpuSlices>& slices, const GpuInputsOf<Rule>& inputs,
    bool lazy, void* workspace, void* stream) {
  const GpuRules<Rule> rules(workspace);
  if (const char* error =
          MakeRulesOnGpu<Rule>(inputs, rules, tables.size(), stream)) {
    return error;
  }
  const auto batches = PlanGpuSlices(slices);
  std::vector<GpuSortedEntries> sorted;
  if (const char* error = SortOnGpu(
          batches, {rules.writes_at(), rules.writes_at(), true},
          SortWorkspace<Rule>(workspace, tables.size()), stream, &sorted)) {
    return error;
  }
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const GpuTableBatch<T, Rule::kSlots> batch(batches[b], tables);
    const int64_t warps =
        GpuRowThread<CudaConvert, T, Rule>::Warps(batch, lazy);
    if (warps == 0) continue;
    ApplyGpuRows<T, Rule>
        <<<CudaBlocksOfWarps(warps), kCudaThreads, 0,
           static_cast<cudaStream_t>(stream)>>>(batch, sorted[b], rules, lazy);
    if (const char* error = CudaLaunchError()) return error;
  }
  return nullptr;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_SPARSE_CUDA_INL_CUH_
