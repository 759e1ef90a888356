#include "tf_opt/cc/kernels/numbers.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

absl::Status CheckRange(const ScalarInfo& scalar, double value) {
  if (IsInRange(scalar.range, value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`", scalar.name, "` must be ", Describe(scalar.range), ", got ", value));
}

}  // namespace

absl::Status FindScalar(OpKernelContext* context, const char* name,
                        const void** data) {
  const Tensor* tensor;
  TF_RETURN_IF_ERROR(context->input(name, &tensor));
  *data = tensor->data();
  return CheckScalarShape(name, tensor->shape());
}

absl::Status FindVectors(OpKernelContext* context, ApplyLaunch* launch) {
  if (launch->has_table()) {
    const void* row;
    TF_RETURN_IF_ERROR(FindScalar(context, launch->row_input(), &row));
    launch->row = static_cast<const int64_t*>(row);
  }
  PerVariable* vector = launch->vectors.data();
  for (const char* name : kPerVariableInputs) {
    const Tensor* tensor;
    TF_RETURN_IF_ERROR(context->input(name, &tensor));
    TF_RETURN_IF_ERROR(
        CheckPerVariableShape(name, launch->size(), tensor->shape()));
    *vector++ = {static_cast<const double*>(tensor->data()),
                 tensor->NumElements() == 1};
  }
  return absl::OkStatus();
}

absl::Status ReadSeed(OpKernelContext* context, int64_t* seed) {
  const void* data;
  TF_RETURN_IF_ERROR(FindScalar(context, "seed", &data));
  *seed = ReadOnce(static_cast<const int64_t*>(data));
  return absl::OkStatus();
}

absl::Status StepNumbers::Read(const ApplyAttributes& attributes,
                               OpKernelContext* context, ApplyLaunch* launch) {
  values = attributes.values;
  const void* data;
  for (const ScalarInfo& scalar : attributes.optimizer->rule.scalars) {
    TF_RETURN_IF_ERROR(FindScalar(context, scalar.name, &data));
    values.scalars.push_back(ReadScalar(scalar.type, data));
  }
  TF_RETURN_IF_ERROR(FindVectors(context, launch));
  frame.stochastic_rounding = attributes.stochastic_rounding;
  for (const ScalarInput<FrameInputs>& scalar : kFrameScalars) {
    TF_RETURN_IF_ERROR(FindScalar(context, scalar.name, &data));
    scalar.Read(data, &frame);
  }
  return ReadSeed(context, &frame.seed);
}

absl::Status StepNumbers::CheckRanges(const RuleInfo& rule) const {
  for (std::size_t k = 0; k < rule.scalars.size(); ++k) {
    const ScalarInfo& scalar = rule.scalars[k];
    TF_RETURN_IF_ERROR(
        CheckRange(scalar, ToDouble(scalar.type, values.scalars[k])));
  }
  for (const ScalarInput<FrameInputs>& scalar : kFrameScalars) {
    TF_RETURN_IF_ERROR(CheckRange(scalar, scalar.Get(frame)));
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
