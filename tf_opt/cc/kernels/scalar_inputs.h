// A step's scalar inputs, read and checked; every error names the argument.
#ifndef TF_OPT_CC_KERNELS_SCALAR_INPUTS_H_
#define TF_OPT_CC_KERNELS_SCALAR_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_opt {

// Any number.
absl::Status ReadScalar(tensorflow::OpKernelContext* context,
                        const std::string& name, double* value);

// A number >= 0.
absl::Status ReadNonNegative(tensorflow::OpKernelContext* context,
                             const std::string& name, double* value);

// The decay rate of a moving average: a number in [0, 1).
absl::Status ReadDecayRate(tensorflow::OpKernelContext* context,
                           const std::string& name, double* value);

// Any integer.
absl::Status ReadScalar(tensorflow::OpKernelContext* context,
                        const std::string& name, int64_t* value);

// An integer >= 1: a step, whose bias corrections divide by zero at 0, or a
// count that something is divided by.
absl::Status ReadPositive(tensorflow::OpKernelContext* context,
                          const std::string& name, int64_t* value);

// A vector of numbers.
absl::Status ReadVector(tensorflow::OpKernelContext* context,
                        const std::string& name, std::vector<double>* values);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SCALAR_INPUTS_H_
