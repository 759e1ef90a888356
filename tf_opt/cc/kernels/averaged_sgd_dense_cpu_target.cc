// The dense CPU loops of AveragedSGD, compiled once per instruction set.
#include "tf_opt/cc/engines/dense_cpu_range-inl.h"
#include "tf_opt/cc/rules/averaged_sgd.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {

TF_OPT_INSTANTIATE_RANGES(AveragedSgdRule, false);
TF_OPT_INSTANTIATE_RANGES(AveragedSgdRule, true);

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
