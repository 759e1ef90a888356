// Makes the rules of one optimizer, TF_OPT_RULE, for a step on the CPU.
// Compiled once for each optimizer; it contains functions of the standard
// library, so for no instruction set in particular.
#include <vector>

#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"

namespace tf_opt {

template <typename Description, typename V>
std::vector<CpuRule<V>> MakeRules(const CpuStep& step,
                                  std::vector<MissedStep>* missed) {
  std::vector<CpuRule<V>> rules;
  rules.reserve(step.own.size());
  WithRule<Description, V>(step.variant, [&](auto tag) {
    using Rule = typename decltype(tag)::type;
    const typename Rule::Scalars shared(
        HyperparametersOf<Description>(step.numbers));
    for (const VariableInputs& own : step.own) {
      [[maybe_unused]] const int i = static_cast<int>(rules.size());
      rules.emplace_back(FramedRule<Rule>(shared, step.frame, own),
                         step.target);
      if constexpr (Rule::kRowWise) {
        rules[i].row_states =
            static_cast<V*>(step.arrays.Slot(Rule::kSlots, i));
        rules[i].width = step.arrays.widths[i];
      }
      if constexpr (Description::kCoasts) {
        if (step.catches_up()) {
          missed->push_back(MissedStepOf<Rule>(shared, step.frame, own));
        }
      }
    }
  });
  return rules;
}

template std::vector<CpuRule<float>> MakeRules<TF_OPT_RULE, float>(
    const CpuStep&, std::vector<MissedStep>*);
template std::vector<CpuRule<double>> MakeRules<TF_OPT_RULE, double>(
    const CpuStep&, std::vector<MissedStep>*);

}  // namespace tf_opt
