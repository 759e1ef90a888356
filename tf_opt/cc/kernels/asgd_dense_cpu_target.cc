// The dense CPU loops of ASGD, compiled once per instruction set.
#include "tf_opt/cc/engines/dense_cpu_range-inl.h"
#include "tf_opt/cc/rules/asgd.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {

TF_OPT_INSTANTIATE_RANGES(AsgdRule, false);
TF_OPT_INSTANTIATE_RANGES(AsgdRule, true);

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
