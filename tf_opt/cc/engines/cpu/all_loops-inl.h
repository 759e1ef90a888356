// All loops of an optimizer's rules, for one instruction set. The same rules
// hold as in dense_cpu_range-inl.h.
// clang-format off: the second file needs the first.
#include "tf_opt/cc/engines/cpu/dense_cpu_range-inl.h"
#include "tf_opt/cc/engines/cpu/coast_cpu_range-inl.h"
// clang-format on
#include "tf_opt/cc/engines/rule_cases.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {

template <typename T, typename Rule>
constexpr auto CoastLoop() {
  if constexpr (Rule::Description::kCoasts) {
    return CoastRange<T, Rule>;
  } else {
    return nullptr;
  }
}

// The loops of one rule.
template <typename Case>
struct Loops {
  using T = typename Case::T;
  using Rule = typename Case::Rule;

  decltype(&ApplyRange<T, Rule>) apply = ApplyRange<T, Rule>;
  decltype(&AccumulateRange<T, Rule>) accumulate = AccumulateRange<T, Rule>;
  decltype(&CoastRange<T, Rule>) coast = CoastLoop<T, Rule>();
};

// An explicit instantiation emits the loops of all rules of an optimizer.
template <typename Description>
struct AllLoops {
  static constexpr RuleTableOf<Loops, Description> kAll{};
};

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
