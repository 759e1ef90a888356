// The rules of one optimizer, TF_OPT_RULE, for a step on the CPU. Compiled once
// for each optimizer; it contains functions of the standard library, so for no
// instruction set in particular.
#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"

#include <vector>

#include "tf_opt/cc/engines/cpu/cpu_rule.h"
#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/rule_info.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace {

template <typename Description, typename V>
void ApplyRules(const CpuStep& step) {
  WithRule<Description, V>(step.variant, [&step](auto tag) {
    using Rule = typename decltype(tag)::type;
    const typename Rule::Step shared(
        HyperparametersOf<Description>(step.values));
    std::vector<CpuRule<V>> rules;
    std::vector<MissedStep> missed;
    rules.reserve(step.variables.size());
    for (const VariableInputs& own : step.variables) {
      [[maybe_unused]] const int i = static_cast<int>(rules.size());
      rules.emplace_back(FramedRule<Rule>(shared, step.frame, own),
                         ChosenCpuTarget());
      if constexpr (Rule::kRowWise) {
        rules[i].row_states =
            static_cast<V*>(step.arrays.RowStates(Rule::kSlots, i));
        rules[i].width = step.arrays.widths[i];
      }
      if constexpr (Description::kCoasts) {
        if (!step.waiting.empty()) {
          missed.push_back(MissedStepOf<Rule>(shared, step.frame, own));
        }
      }
    }
    ApplyStep(step, rules, kTablesOf<Rule>, missed);
  });
}

}  // namespace

template <typename Description>
void ApplyOnCpu(const CpuStep& step) {
  if (step.arrays.element == ElementType::kDouble) {
    ApplyRules<Description, double>(step);
  } else {
    ApplyRules<Description, float>(step);
  }
}

template void ApplyOnCpu<TF_OPT_RULE>(const CpuStep& step);

}  // namespace tf_opt
