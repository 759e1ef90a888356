#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"

#include "tf_opt/cc/engines/cpu/sparse_cpu.h"

namespace tf_opt {

void ApplyOnCpu(const CpuStep& step, const RuleMakers& makers) {
  WithElementType(step.arrays.element, [&](auto element) {
    using T = typename decltype(element)::type;
    std::vector<MissedStep> missed;
    const CpuRules<T> rules =
        std::get<RuleMaker<ComputeType<T>>>(makers)(step, &missed);
    if (rules.empty()) return;
    const auto tensors = step.arrays.Tensors<T>(rules[0].loops->slots);
    if (!step.sparse) {
      ApplyDense(tensors, rules, step.target, step.threads);
      return;
    }
    std::vector<SparseGradient<T>> gradients;
    gradients.reserve(step.slices.size());
    for (const SparseGradient<void>& one : step.slices) {
      gradients.push_back(one.WithType<T>());
    }
    ApplySparse(tensors, gradients, rules, step.lazy, step.target, step.threads,
                step.waiting, missed);
  });
}

}  // namespace tf_opt
