// The loops of one optimizer's rules, TF_OPT_RULE, for one instruction set.
#include "tf_opt/cc/engines/cpu/rule_loops-inl.h"
#include "tf_opt/cc/engines/rule_cases.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {

template <typename Case>
struct Loops {
  using Rule = typename Case::Rule;

  decltype(&LoopsOf<Rule>) loops = LoopsOf<Rule>;
};

// An explicit instantiation emits the loops of all rules of an optimizer.
template <typename Description>
struct AllLoops {
  static constexpr RuleTableOf<Loops, Description> kAll{};
};

template struct AllLoops<TF_OPT_RULE>;

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
