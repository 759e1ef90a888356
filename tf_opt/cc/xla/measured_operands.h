// What measuring gradients reads in a program that XLA compiles.
#ifndef TF_OPT_CC_XLA_MEASURED_OPERANDS_H_
#define TF_OPT_CC_XLA_MEASURED_OPERANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

// Reads dense gradients, how many elements of each count, in int64, and their
// shapes: if something was accumulated, those of that where XLA doesn't know
// them. (One that doesn't fit is for the op that applies it to refuse.)
absl::Status ReadGradients(tensorflow::XlaOpKernelContext* context,
                           std::vector<xla::XlaOp>* gradients,
                           std::vector<xla::XlaOp>* counts,
                           std::vector<tensorflow::TensorShape>* shapes);

// Reads how many rows the tables of so many gradients have.
absl::Status ReadTableRows(tensorflow::XlaOpKernelContext* context, int count,
                           std::vector<int64_t>* rows);

// Reads the shapes of tables of so many rows, of which gradients are slices.
absl::Status ReadTableShapes(tensorflow::XlaOpKernelContext* context,
                             const std::vector<int64_t>& rows,
                             std::vector<tensorflow::TensorShape>* shapes);

// Reads what was accumulated, if anything was. `shapes` are those of what the
// gradients, of type `dtype`, are of, and errors call that `whose`.
absl::Status ReadAccumulators(
    tensorflow::XlaOpKernelContext* context, tensorflow::DataType dtype,
    const std::vector<tensorflow::TensorShape>& shapes,
    const std::string& whose, std::vector<xla::XlaOp>* accumulators);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_MEASURED_OPERANDS_H_
