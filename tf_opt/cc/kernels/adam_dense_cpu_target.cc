// The dense CPU loops of Adam, compiled once per instruction set.
#include "tf_opt/cc/engines/dense_cpu_range-inl.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {

#define TF_OPT_INSTANTIATE(T, amsgrad, l2)                                  \
  template void ApplyRange<T>(                                              \
      const AdamRule<ComputeType<T>, amsgrad, l2>&,                         \
      const DenseTensor<T, AdamRule<ComputeType<T>, amsgrad, l2>::kSlots>&, \
      int64_t, int64_t)
#define TF_OPT_INSTANTIATE_MODES(T)    \
  TF_OPT_INSTANTIATE(T, false, false); \
  TF_OPT_INSTANTIATE(T, false, true);  \
  TF_OPT_INSTANTIATE(T, true, false);  \
  TF_OPT_INSTANTIATE(T, true, true)

TF_OPT_INSTANTIATE_MODES(Half);
TF_OPT_INSTANTIATE_MODES(BFloat16);
TF_OPT_INSTANTIATE_MODES(float);
TF_OPT_INSTANTIATE_MODES(double);

#undef TF_OPT_INSTANTIATE_MODES
#undef TF_OPT_INSTANTIATE

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
