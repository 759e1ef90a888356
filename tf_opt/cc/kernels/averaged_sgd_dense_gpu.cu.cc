// The dense GPU engine of AveragedSGD.
#include "tf_opt/cc/engines/dense_gpu_launch-inl.h"
#include "tf_opt/cc/rules/averaged_sgd.h"

namespace tf_opt {

TF_OPT_INSTANTIATE_GPU_LAUNCHES(AveragedSgdRule, false);
TF_OPT_INSTANTIATE_GPU_LAUNCHES(AveragedSgdRule, true);

}  // namespace tf_opt
