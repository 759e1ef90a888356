// The step of one optimizer, TF_OPT_RULE. Compiled once for each; it contains
// functions of the standard library, so for no instruction set in particular.
#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"

#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/engines/cpu/sparse_cpu.h"
#include "tf_opt/cc/engines/rule_header.h"
#include "tf_opt/cc/engines/storage_types.h"

namespace tf_opt {
namespace {

template <typename T, typename Rule>
void ApplyRule(const CpuStep& step) {
  using Description = typename Rule::Description;
  const typename Rule::Step shared(HyperparametersOf<Description>(step.values));
  auto tensors = step.arrays.Tensors<T, Rule>();
  std::vector<FramedRule<Rule>> rules;
  rules.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    rules.emplace_back(shared, step.frame, step.variables[i]);
    tensors[i] = tensors[i].template AtRow<Rule>(step.row);
  }
  if (!step.sparse) {
    ApplyDense<T>(tensors, rules, ChosenCpuTarget(), step.threads,
                  step.parallel_for, step.frame.update);
    return;
  }
  std::vector<SparseGradient<T>> gradients;
  gradients.reserve(step.slices.size());
  for (const CpuStep::Slices& one : step.slices) {
    gradients.push_back(
        {static_cast<const T*>(one.values), one.width, one.entries});
  }
  if constexpr (Description::kCoasts) {
    if (!step.waiting.empty()) {
      std::vector<MissedStep> missed;
      for (const VariableInputs& own : step.variables) {
        missed.push_back(Rule::Missed(shared, own));
      }
      ApplyToWaiting(tensors, gradients, rules, missed, step.lazy,
                     ChosenCpuTarget(), step.threads, step.parallel_for,
                     step.frame.update, step.waiting);
      return;
    }
  }
  ApplySparse(tensors, gradients, rules, step.lazy, ChosenCpuTarget(),
              step.threads, step.parallel_for, step.frame.update);
}

}  // namespace

template <typename Description>
void ApplyOnCpu(const CpuStep& step) {
  WithElementType(step.arrays.element, [&step](auto element) {
    using T = typename decltype(element)::type;
    WithRule<Description, ComputeType<T>>(step.variant, [&step](auto rule) {
      ApplyRule<T, typename decltype(rule)::type>(step);
    });
  });
}

template void ApplyOnCpu<TF_OPT_RULE>(const CpuStep& step);

}  // namespace tf_opt
