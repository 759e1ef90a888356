#include "tf_opt/cc/kernels/scalar_inputs.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

absl::Status FindInput(OpKernelContext* context, const std::string& name,
                       int dims, const char* kind, const Tensor** tensor) {
  absl::Status status = context->input(name, tensor);
  if (status.ok() && (*tensor)->dims() != dims) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", name, "` must be a ", kind, ", got shape ",
                     (*tensor)->shape().DebugString()));
  }
  return status;
}

}  // namespace

absl::Status FindScalar(OpKernelContext* context, const std::string& name,
                        const Tensor** tensor) {
  return FindInput(context, name, 0, "scalar", tensor);
}

absl::Status FindVector(OpKernelContext* context, const std::string& name,
                        const Tensor** tensor) {
  return FindInput(context, name, 1, "vector", tensor);
}

}  // namespace tf_opt
