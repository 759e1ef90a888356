// The numbers of a step. A running op (OpNumbers) and a call inside XLA are the
// two sources of them:
//
//   source.Scalar(name, &data)
//   source.OfVariables(name, count, &vector)
//
// A call has no names: its numbers are in the order of the op's inputs.
#ifndef TF_OPT_CC_KERNELS_NUMBERS_H_
#define TF_OPT_CC_KERNELS_NUMBERS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Finds numbers among the inputs of a running op, in the device's memory.
class OpNumbers {
 public:
  explicit OpNumbers(tensorflow::OpKernelContext* context)
      : context_(context) {}

  absl::Status Scalar(const char* name, const void** data) const {
    const tensorflow::Tensor* tensor;
    TF_RETURN_IF_ERROR(context_->input(name, &tensor));
    *data = tensor->data();
    return CheckScalarShape(name, tensor->shape());
  }

  absl::Status OfVariables(const char* name, int count,
                           PerVariable* vector) const {
    const tensorflow::Tensor* tensor;
    TF_RETURN_IF_ERROR(context_->input(name, &tensor));
    *vector = {static_cast<const double*>(tensor->data()),
               tensor->NumElements()};
    return CheckPerVariableShape(name, count, tensor->shape());
  }

 private:
  tensorflow::OpKernelContext* const context_;
};

// Finds the numbers that are data of a launch: its row and its vectors.
template <typename Source>
absl::Status FindVectors(Source& source, ApplyLaunch* launch) {
  if (launch->has_table()) {
    const void* row;
    TF_RETURN_IF_ERROR(source.Scalar(launch->row_input(), &row));
    launch->row = static_cast<const int64_t*>(row);
  }
  PerVariable* vector = launch->vectors.data();
  for (const char* name : kPerVariableInputs) {
    TF_RETURN_IF_ERROR(source.OfVariables(name, launch->size(), vector++));
  }
  return absl::OkStatus();
}

// Reads numbers that are on the host.
template <typename Source, typename Numbers, std::size_t kCount>
absl::Status ReadScalars(Source& source,
                         const ScalarInput<Numbers> (&inputs)[kCount],
                         Numbers* numbers) {
  const void* data;
  for (const ScalarInput<Numbers>& input : inputs) {
    TF_RETURN_IF_ERROR(source.Scalar(input.name, &data));
    input.Read(data, numbers);
  }
  return absl::OkStatus();
}

template <typename Source>
absl::Status ReadSeed(Source& source, int64_t* seed) {
  const void* data;
  TF_RETURN_IF_ERROR(source.Scalar("seed", &data));
  *seed = ReadOnce(static_cast<const int64_t*>(data));
  return absl::OkStatus();
}

// Checks the ranges of numbers.
template <typename Numbers, std::size_t kCount>
absl::Status CheckRanges(const ScalarInput<Numbers> (&inputs)[kCount],
                         const Numbers& numbers) {
  for (const ScalarInput<Numbers>& input : inputs) {
    if (input.InRange(numbers)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("`", input.name, "` must be ", Describe(input.range),
                     ", got ", input.Get(numbers)));
  }
  return absl::OkStatus();
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_NUMBERS_H_
