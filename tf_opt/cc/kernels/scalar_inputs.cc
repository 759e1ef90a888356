#include "tf_opt/cc/kernels/scalar_inputs.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

template <typename T>
absl::Status ReadScalarOf(OpKernelContext* context, const std::string& name,
                          T* value) {
  const Tensor* tensor;
  absl::Status status = context->input(name, &tensor);
  if (!status.ok()) return status;
  if (tensor->dims() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", name, "` must be a scalar, got shape ",
                     tensor->shape().DebugString()));
  }
  *value = tensor->scalar<T>()();
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadScalar(OpKernelContext* context, const std::string& name,
                        double* value) {
  return ReadScalarOf(context, name, value);
}

absl::Status ReadNonNegative(OpKernelContext* context, const std::string& name,
                             double* value) {
  absl::Status status = ReadScalarOf(context, name, value);
  if (status.ok() && !(*value >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", name, "` must be >= 0, got ", *value));
  }
  return status;
}

absl::Status ReadDecayRate(OpKernelContext* context, const std::string& name,
                           double* value) {
  absl::Status status = ReadScalarOf(context, name, value);
  if (status.ok() && !(*value >= 0 && *value < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", name, "` must be in [0, 1), got ", *value));
  }
  return status;
}

absl::Status ReadScalar(OpKernelContext* context, const std::string& name,
                        int64_t* value) {
  return ReadScalarOf(context, name, value);
}

absl::Status ReadPositive(OpKernelContext* context, const std::string& name,
                          int64_t* value) {
  absl::Status status = ReadScalarOf(context, name, value);
  if (status.ok() && *value < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", name, "` must be >= 1, got ", *value));
  }
  return status;
}

absl::Status ReadVector(OpKernelContext* context, const std::string& name,
                        std::vector<double>* values) {
  const Tensor* tensor;
  absl::Status status = context->input(name, &tensor);
  if (!status.ok()) return status;
  if (tensor->dims() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", name, "` must be a vector, got shape ",
                     tensor->shape().DebugString()));
  }
  const auto elements = tensor->vec<double>();
  values->assign(elements.data(), elements.data() + elements.size());
  return absl::OkStatus();
}

}  // namespace tf_opt
