// The rules of an optimizer for all variable types.
#ifndef TF_OPT_CC_ENGINES_RULE_CASES_H_
#define TF_OPT_CC_ENGINES_RULE_CASES_H_

#include <utility>

#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/description.h"

namespace tf_opt {

// A rule for variables of type T.
template <typename T_, typename Description, int kVariant>
struct RuleCase {
  using T = T_;
  using Rule = RuleOf<Description, ComputeType<T>, kVariant>;
};

// An Entry<RuleCase> for each case.
template <template <typename> class Entry, typename... Cases>
struct RuleTable : Entry<Cases>... {};

template <template <typename> class Entry, typename Description,
          int... kVariants>
auto MakeRuleTable(std::integer_sequence<int, kVariants...>)
    -> RuleTable<Entry, RuleCase<Half, Description, kVariants>...,
                 RuleCase<BFloat16, Description, kVariants>...,
                 RuleCase<float, Description, kVariants>...,
                 RuleCase<double, Description, kVariants>...>;

// An Entry for each variable type and variant of a rule. Where a function's
// address is in an entry, the compiler emits the function.
template <template <typename> class Entry, typename Description>
using RuleTableOf = decltype(MakeRuleTable<Entry, Description>(
    std::make_integer_sequence<int, kVariants<Description>>()));

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_RULE_CASES_H_
