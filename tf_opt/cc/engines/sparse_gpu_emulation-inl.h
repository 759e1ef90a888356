// The sparse GPU engine on a machine without a GPU, for tests: what the threads
// of the kernels do, done one after the other. Slow.
#ifndef TF_OPT_CC_ENGINES_SPARSE_GPU_EMULATION_INL_H_
#define TF_OPT_CC_ENGINES_SPARSE_GPU_EMULATION_INL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/emulated_convert-inl.h"
#include "tf_opt/cc/engines/gpu_rules.h"
#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/engines/gpu_sort.h"
#include "tf_opt/cc/engines/sparse_gpu.h"
#include "tf_opt/cc/engines/sparse_gpu_launch.h"

namespace tf_opt {

template <typename T, typename Rule>
const char* ApplySparseGpu(
    const std::vector<DenseTensor<T, Rule::kSlots>>& tables,
    const std::vector<GpuSlices>& slices, const GpuInputsOf<Rule>& inputs,
    bool lazy, void* workspace, void* stream) {
  using Thread = GpuRowThread<EmulatedConvert, T, Rule>;
  const GpuRules<Rule> rules(workspace);
  for (int64_t i = 0; i < static_cast<int64_t>(tables.size()); ++i) {
    rules.Compute(inputs, i);
  }
  const auto batches = PlanGpuSlices(slices);
  std::vector<GpuSortedEntries> sorted;
  SortOnGpu(batches, {rules.writes_at(), rules.writes_at(), true},
            SortWorkspace<Rule>(workspace, tables.size()), stream, &sorted);
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const GpuTableBatch<T, Rule::kSlots> batch(batches[b], tables);
    for (int64_t warp = 0; warp < Thread::Warps(batch, lazy); ++warp) {
      for (int thread = 0; thread < kWarpThreads; ++thread) {
        Thread::Run(batch, sorted[b], rules, lazy, warp, thread);
      }
    }
  }
  return nullptr;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_SPARSE_GPU_EMULATION_INL_H_
