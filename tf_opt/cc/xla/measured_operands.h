// What TfOpt>MeasureGradients measures in a program that XLA compiles: read and
// checked.
#ifndef TF_OPT_CC_XLA_MEASURED_OPERANDS_H_
#define TF_OPT_CC_XLA_MEASURED_OPERANDS_H_

#include <vector>

#include "absl/status/status.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

struct MeasuredOperands {
  // Gradients of type `dtype`.
  absl::Status Read(tensorflow::XlaOpKernelContext* context,
                    tensorflow::DataType dtype);

  std::vector<xla::XlaOp> gradients;
  std::vector<xla::XlaOp> accumulators;  // Empty: there are none.
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_MEASURED_OPERANDS_H_
