// The loops of one optimizer's rules, TF_OPT_RULE, for one instruction set.
#include "tf_opt/cc/engines/cpu/rule_loops-inl.h"
#include "tf_opt/cc/rules/description.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {

// Names the loops of every variant, so that the compiler emits them.
template <typename Description, typename V>
auto AllLoops(int variant) {
  return WithRule<Description, V>(variant, [](auto rule) {
    return &LoopsOf<typename decltype(rule)::type>;
  });
}
template auto AllLoops<TF_OPT_RULE, float>(int);
template auto AllLoops<TF_OPT_RULE, double>(int);

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
