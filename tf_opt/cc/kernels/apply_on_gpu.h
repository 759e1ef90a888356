// Applies dense gradients on a GPU. Only handles and the seed are on the host:
// a step's other numbers stay in device memory, so that a step never waits.
#ifndef TF_OPT_CC_KERNELS_APPLY_ON_GPU_H_
#define TF_OPT_CC_KERNELS_APPLY_ON_GPU_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/apply_attributes.h"
#include "tf_opt/cc/kernels/resource_apply_launch.h"

namespace tf_opt {

// Applies the rule, framed, to each variable of an op. `launch` is empty.
absl::Status ApplyOnGpu(tensorflow::OpKernelContext* context,
                        const ApplyAttributes& attributes,
                        ResourceApplyLaunch* launch);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_APPLY_ON_GPU_H_
