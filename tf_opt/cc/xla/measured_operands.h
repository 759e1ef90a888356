// What measuring gradients reads besides them in a program that XLA compiles.
#ifndef TF_OPT_CC_XLA_MEASURED_OPERANDS_H_
#define TF_OPT_CC_XLA_MEASURED_OPERANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

// Reads what was accumulated, if anything was. `shapes` are those of what the
// gradients, of type `dtype`, are of, and errors call that `whose`.
absl::Status ReadAccumulators(
    tensorflow::XlaOpKernelContext* context, tensorflow::DataType dtype,
    const std::vector<tensorflow::TensorShape>& shapes,
    const std::string& whose, std::vector<xla::XlaOp>* accumulators);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_MEASURED_OPERANDS_H_
