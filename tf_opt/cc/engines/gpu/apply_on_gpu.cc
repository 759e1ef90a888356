// The rules of one optimizer, TF_OPT_RULE, for a step on a GPU: compiled with
// CUDA's compiler for a GPU, with any other for its emulation.
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"

#include <cstddef>

#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#if defined(__CUDACC__)
#include "tf_opt/cc/engines/gpu/cuda-inl.cuh"
#else
#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"
#endif

namespace tf_opt {

// Calls use(TypeTag<T>(), TypeTag<Rule>()) with a step's types.
template <typename Description, typename Use>
auto WithGpuRule(const GpuStep& step, const Use& use) {
  return WithElementType(step.arrays.element, [&](auto element) {
    using T = typename decltype(element)::type;
    return WithRule<Description, ComputeType<T>>(
        step.variant, [&](auto rule) { return use(element, rule); });
  });
}

template <typename Description>
std::size_t GpuWorkspaceBytes(const GpuStep& step) {
  return WithGpuRule<Description>(step, [&step](auto, auto rule) {
    using Rule = typename decltype(rule)::type;
    return GpuRules<Rule>::Bytes(step.arrays.count());
  });
}

template <typename Description>
const char* ApplyOnGpu(const GpuStep& step, void* workspace, void* stream) {
  GpuStepInputs<Description> inputs;
  inputs.scalars.known = HyperparametersOf<Description>(step.values);
  inputs.frame.known = step.frame;
  for (std::size_t k = 0; k < step.scalars.size(); ++k) {
    inputs.scalars.Add(Description::kScalars[k], step.scalars[k]);
  }
  for (std::size_t k = 0; k < step.frame_scalars.size(); ++k) {
    inputs.frame.Add(kFrameScalars[k], step.frame_scalars[k]);
  }
  inputs.variables = step.variables;
  inputs.has_accumulators = step.has_accumulators;
  inputs.layer = step.layer;
  return WithGpuRule<Description>(step, [&](auto element, auto rule) {
    using T = typename decltype(element)::type;
    using Rule = typename decltype(rule)::type;
    if constexpr (Rule::kRowWise) {
      return "row-wise rules have no GPU kernels";
    } else {
      return ApplyDenseGpu<T, Rule>(step.arrays.Tensors<T>(Rule::kSlots),
                                    inputs, workspace, stream);
    }
  });
}

template std::size_t GpuWorkspaceBytes<TF_OPT_RULE>(const GpuStep&);
template const char* ApplyOnGpu<TF_OPT_RULE>(const GpuStep&, void*, void*);

}  // namespace tf_opt
