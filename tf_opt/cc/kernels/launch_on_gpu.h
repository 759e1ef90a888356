// Launches of resource-apply ops on a GPU, for dense gradients. Only handles
// and the seed are on the host: a step's other numbers stay in device memory,
// so that a step never waits.
#ifndef TF_OPT_CC_KERNELS_LAUNCH_ON_GPU_H_
#define TF_OPT_CC_KERNELS_LAUNCH_ON_GPU_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/apply_attributes.h"

namespace tf_opt {

// Applies the rule, framed, to all variables of an op.
absl::Status LaunchOnGpu(tensorflow::OpKernelContext* context,
                         const ApplyAttributes& attributes);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_LAUNCH_ON_GPU_H_
