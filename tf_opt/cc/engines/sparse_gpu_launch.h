// The sparse GPU engine as its callers see it: one rule over many tables whose
// gradients say only some of their rows. What dense_gpu_launch.h says of CUDA
// holds here too.
//
//   exact   every row, those that don't occur with a gradient of zero, which
//           isn't there to be read: the bits of a dense gradient
//   lazy    the rows that occur
#ifndef TF_OPT_CC_ENGINES_SPARSE_GPU_LAUNCH_H_
#define TF_OPT_CC_ENGINES_SPARSE_GPU_LAUNCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/dense_gpu_launch.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/gpu_rules.h"
#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/engines/gpu_sort.h"

namespace tf_opt {

// The rules' part of a workspace; entries are sorted behind it.
template <typename Rule>
std::size_t SparseRulesBytes(std::size_t tables) {
  constexpr std::size_t kAlignment = alignof(int64_t);
  return (GpuRules<Rule>::Bytes(tables) + kAlignment - 1) / kAlignment *
         kAlignment;
}
template <typename Rule>
void* SortWorkspace(void* workspace, std::size_t tables) {
  return static_cast<unsigned char*>(workspace) +
         SparseRulesBytes<Rule>(tables);
}

// Of the device's memory.
template <typename Rule>
std::size_t SparseWorkspaceBytes(const std::vector<GpuSlices>& slices) {
  return SparseRulesBytes<Rule>(slices.size()) +
         SortWorkspaceBytes(PlanGpuSlices(slices));
}

// Makes a Rule for each table out of `inputs` and applies it, in the stream's
// order; a table's gradient are the values of its slices. `workspace` are
// SparseWorkspaceBytes<Rule>(slices) of the device's memory. If a number is out
// of its range or there is no such row, nothing is written to the tables, and
// the device prints which.
template <typename T, typename Rule>
const char* ApplySparseGpu(
    const std::vector<DenseTensor<T, Rule::kSlots>>& tables,
    const std::vector<GpuSlices>& slices, const GpuInputsOf<Rule>& inputs,
    bool lazy, void* workspace, void* stream);

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_SPARSE_GPU_LAUNCH_H_
