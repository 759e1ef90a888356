// The arrays of a resource-apply op in a program that XLA compiles: read and
// checked, and what became of them assigned.
#ifndef TF_OPT_CC_XLA_APPLY_OPERANDS_H_
#define TF_OPT_CC_XLA_APPLY_OPERANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/rules/operand.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

// Those of an operand.
struct OperandArrays {
  Operand operand;
  int input = 0;  // The first one's number among the op's inputs.
  // One for each variable; empty: the operand isn't there.
  std::vector<xla::XlaOp> values;
  std::vector<tensorflow::DataType> types;
};

struct ApplyOperands {
  // Reads the frame's operands and then `slots`, of `count` variables of type
  // `dtype`.
  absl::Status Read(tensorflow::XlaOpKernelContext* context,
                    const std::vector<Operand>& slots,
                    tensorflow::DataType dtype, int count);

  // Assigns their values to those that are updated.
  absl::Status Assign(tensorflow::XlaOpKernelContext* context) const;

  std::vector<OperandArrays> arrays;
  std::vector<tensorflow::TensorShape> shapes;  // The variables'.
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_APPLY_OPERANDS_H_
