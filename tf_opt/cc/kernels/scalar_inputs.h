// Scalar inputs of an op: found in any memory, and checked. Every error names
// the input.
#ifndef TF_OPT_CC_KERNELS_SCALAR_INPUTS_H_
#define TF_OPT_CC_KERNELS_SCALAR_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {

// Finds the input `name` and checks that it is a scalar.
absl::Status FindScalar(tensorflow::OpKernelContext* context,
                        const std::string& name,
                        const tensorflow::Tensor** tensor);

// Reads numbers that are on the host.
template <typename Numbers, std::size_t kCount>
absl::Status ReadScalars(tensorflow::OpKernelContext* context,
                         const ScalarInput<Numbers> (&inputs)[kCount],
                         Numbers* numbers) {
  const tensorflow::Tensor* tensor;
  for (const ScalarInput<Numbers>& input : inputs) {
    TF_RETURN_IF_ERROR(FindScalar(context, input.name, &tensor));
    input.Read(tensor->data(), numbers);
  }
  return absl::OkStatus();
}

// Reads the integer `name`, which is on the host.
absl::Status ReadInteger(tensorflow::OpKernelContext* context,
                         const std::string& name, int64_t* number);

// Checks the ranges of numbers.
template <typename Numbers, std::size_t kCount>
absl::Status CheckRanges(const ScalarInput<Numbers> (&inputs)[kCount],
                         const Numbers& numbers) {
  for (const ScalarInput<Numbers>& input : inputs) {
    if (input.InRange(numbers)) continue;
    return OutOfRange(input.name, input.range, input.Get(numbers));
  }
  return absl::OkStatus();
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SCALAR_INPUTS_H_
