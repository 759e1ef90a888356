// The dense GPU engine of NAdam.
#include "tf_opt/cc/engines/dense_gpu_launch-inl.h"
#include "tf_opt/cc/rules/nadam.h"

namespace tf_opt {

TF_OPT_INSTANTIATE_GPU_LAUNCHES(NAdamRule, false);
TF_OPT_INSTANTIATE_GPU_LAUNCHES(NAdamRule, true);

}  // namespace tf_opt
