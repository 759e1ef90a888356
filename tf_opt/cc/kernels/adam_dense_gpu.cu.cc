// The dense GPU engine of Adam.
#include "tf_opt/cc/engines/dense_gpu_launch-inl.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {

TF_OPT_INSTANTIATE_GPU_LAUNCHES(AdamRule, false, false);
TF_OPT_INSTANTIATE_GPU_LAUNCHES(AdamRule, false, true);
TF_OPT_INSTANTIATE_GPU_LAUNCHES(AdamRule, true, false);
TF_OPT_INSTANTIATE_GPU_LAUNCHES(AdamRule, true, true);

}  // namespace tf_opt
