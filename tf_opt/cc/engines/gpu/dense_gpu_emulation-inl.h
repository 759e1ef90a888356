// The dense GPU engine on a machine without a GPU, for tests: it runs the
// threads of the kernels one after the other. Slow.
#ifndef TF_OPT_CC_ENGINES_GPU_DENSE_GPU_EMULATION_INL_H_
#define TF_OPT_CC_ENGINES_GPU_DENSE_GPU_EMULATION_INL_H_

#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/dense_gpu_launch.h"
#include "tf_opt/cc/engines/gpu/emulated_convert-inl.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/storage_types.h"

namespace tf_opt {

constexpr int kEmulatedThreads = 96;

template <typename T, typename Rule>
const char* ApplyDenseGpu(
    const std::vector<DenseTensor<T, Rule::kSlots>>& tensors,
    const GpuInputsOf<Rule>& inputs, void* workspace, void* stream) {
  const GpuRules<Rule> rules(workspace);
  for (int64_t i = 0; i < static_cast<int64_t>(tensors.size()); ++i) {
    rules.Compute(inputs, i);
  }
  for (const auto& batch : PlanGpuBatches(tensors)) {
    for (int32_t block = 0; block < batch.tiles(); ++block) {
      for (int thread = 0; thread < kEmulatedThreads; ++thread) {
        GpuThread<EmulatedConvert, T, Rule>::Run(batch, rules, block, thread,
                                                 kEmulatedThreads);
      }
    }
  }
  return nullptr;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_DENSE_GPU_EMULATION_INL_H_
