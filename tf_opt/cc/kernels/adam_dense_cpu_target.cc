// The dense CPU loops of Adam, compiled once per instruction set.
#include "tf_opt/cc/engines/dense_cpu_range-inl.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {

TF_OPT_INSTANTIATE_RANGES(AdamRule, false, false);
TF_OPT_INSTANTIATE_RANGES(AdamRule, false, true);
TF_OPT_INSTANTIATE_RANGES(AdamRule, true, false);
TF_OPT_INSTANTIATE_RANGES(AdamRule, true, true);

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
