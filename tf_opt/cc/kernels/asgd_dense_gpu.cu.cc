// The dense GPU engine of ASGD.
#include "tf_opt/cc/engines/dense_gpu_launch-inl.h"
#include "tf_opt/cc/rules/asgd.h"

namespace tf_opt {

TF_OPT_INSTANTIATE_GPU_LAUNCHES(AsgdRule, false);
TF_OPT_INSTANTIATE_GPU_LAUNCHES(AsgdRule, true);

}  // namespace tf_opt
