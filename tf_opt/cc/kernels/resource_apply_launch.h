// The launch of a running resource-apply op.
#ifndef TF_OPT_CC_KERNELS_RESOURCE_APPLY_LAUNCH_H_
#define TF_OPT_CC_KERNELS_RESOURCE_APPLY_LAUNCH_H_

#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/kernels/variable_access.h"
#include "tf_opt/cc/rules/operand.h"

namespace tf_opt {

// An ApplyLaunch filled from an op's inputs, with the variables locked as long
// as it lives. It reads only the host's memory, whatever the op's device.
class ResourceApplyLaunch : public ApplyLaunch {
 public:
  using ApplyLaunch::ApplyLaunch;

  // Looks up, locks and checks all variables and makes them safe to write.
  // After an error nothing has been written and nothing may be launched.
  // `updates` is false if the step is known only to accumulate.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       const SliceAttributes& attributes, bool updates,
                       const CopyBytes& copy_bytes);

 private:
  absl::Status LockVariables(tensorflow::OpKernelContext* context);
  // Checks all variables and finds the gradients.
  absl::Status FindGradients(tensorflow::OpKernelContext* context,
                             const SliceAttributes& attributes);
  bool IsWrittenWithoutUpdate(int operand) const;

  std::vector<VariableList> lists_;  // One per operand; empty if absent.
  // Last, so that it unlocks before the variables are released.
  ScopedVariableLocks locks_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_RESOURCE_APPLY_LAUNCH_H_
