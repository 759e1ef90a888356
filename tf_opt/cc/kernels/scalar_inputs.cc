#include "tf_opt/cc/kernels/scalar_inputs.h"

namespace tf_opt {

absl::Status FindScalar(tensorflow::OpKernelContext* context,
                        const std::string& name,
                        const tensorflow::Tensor** tensor) {
  absl::Status status = context->input(name, tensor);
  if (status.ok() && (*tensor)->dims() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", name, "` must be a scalar, got shape ",
                     (*tensor)->shape().DebugString()));
  }
  return status;
}

}  // namespace tf_opt
