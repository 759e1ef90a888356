// Launches of resource-apply ops on the CPU.
#ifndef TF_OPT_CC_KERNELS_LAUNCH_ON_CPU_H_
#define TF_OPT_CC_KERNELS_LAUNCH_ON_CPU_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/apply_attributes.h"

namespace tf_opt {

// Applies the rule, framed, to all variables of an op. After an error nothing
// has been written.
absl::Status LaunchOnCpu(tensorflow::OpKernelContext* context,
                         const ApplyAttributes& attributes);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_LAUNCH_ON_CPU_H_
