#include "tf_opt/cc/kernels/scalar_inputs.h"

#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/ops/operand_checks.h"

namespace tf_opt {

absl::Status FindScalar(tensorflow::OpKernelContext* context,
                        const std::string& name,
                        const tensorflow::Tensor** tensor) {
  TF_RETURN_IF_ERROR(context->input(name, tensor));
  return CheckScalarShape(name, (*tensor)->shape());
}

absl::Status ReadInteger(tensorflow::OpKernelContext* context,
                         const std::string& name, int64_t* number) {
  const tensorflow::Tensor* tensor;
  TF_RETURN_IF_ERROR(FindScalar(context, name, &tensor));
  *number = ReadOnce(static_cast<const int64_t*>(tensor->data()));
  return absl::OkStatus();
}

}  // namespace tf_opt
