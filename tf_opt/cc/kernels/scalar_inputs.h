// An op's inputs that are numbers: found, wherever they lie, and checked; every
// error names the argument.
#ifndef TF_OPT_CC_KERNELS_SCALAR_INPUTS_H_
#define TF_OPT_CC_KERNELS_SCALAR_INPUTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {

// A scalar, by its shape.
absl::Status FindScalar(tensorflow::OpKernelContext* context,
                        const std::string& name,
                        const tensorflow::Tensor** tensor);

// A vector, by its shape.
absl::Status FindVector(tensorflow::OpKernelContext* context,
                        const std::string& name,
                        const tensorflow::Tensor** tensor);

// Whether a number that has been read is what it may be.
template <typename Hyperparameters>
absl::Status CheckRange(const ScalarInput<Hyperparameters>& input,
                        const Hyperparameters& hyperparameters) {
  if (input.InRange(hyperparameters)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`", input.name, "` must be ", Describe(input.range),
                   ", got ", input.Get(hyperparameters)));
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SCALAR_INPUTS_H_
