// What a resource-apply op that XLA compiles is given, but for gradients that
// are slices: read and checked, handed to calls, and what is updated assigned.
#ifndef TF_OPT_CC_XLA_APPLY_OPERANDS_H_
#define TF_OPT_CC_XLA_APPLY_OPERANDS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/xla/apply_xla_op.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

class ApplyOperands {
 public:
  // Of `count` variables of type `dtype`.
  ApplyOperands(const ApplyXlaOp& op, tensorflow::DataType dtype, int count)
      : op_(op), dtype_(dtype), count_(count) {}

  absl::Status Read(tensorflow::XlaOpKernelContext* context);

  // Of the variables.
  const std::vector<tensorflow::TensorShape>& shapes() const { return shapes_; }

  // How many rows all tables have that an operand is a row of.
  int64_t table_rows() const { return table_rows_; }

  // The number of a gradient that hasn't the size that XLA found room for, or
  // -1, in int64; not valid if XLA knows all sizes.
  xla::XlaOp misfit() const { return misfit_; }

  // Adds to a call the arrays of the variables [first, end), and then the
  // numbers and, if gradients are dense, misfit() or -1. What is updated
  // becomes what the call returns.
  absl::Status AddTo(CustomCall* call, int first, int end);

  // In place of gradients that are slices, those that a step goes by.
  void SetGradients(const std::vector<xla::XlaOp>& gradients);

  // The arrays of those operands that are there.
  struct Arrays {
    const Operand* operand;
    int input;  // The first one's number among the op's inputs.
    std::vector<xla::XlaOp> values;
    std::vector<tensorflow::DataType> types;
  };
  std::vector<Arrays>* arrays() { return &all_; }

  // Assigns what has become of the variables.
  absl::Status Assign(tensorflow::XlaOpKernelContext* context) const;

 private:
  absl::Status ReadOperand(tensorflow::XlaOpKernelContext* context,
                           const Operand& operand,
                           std::map<const void*, std::string>* variables);
  absl::Status ReadArray(tensorflow::XlaOpKernelContext* context, int i,
                         std::map<const void*, std::string>* variables,
                         Arrays* arrays);
  absl::Status ReadScalar(tensorflow::XlaOpKernelContext* context,
                          const std::string& name);
  absl::Status ReadNumbers(tensorflow::XlaOpKernelContext* context);
  absl::Status CheckSlotsHaveOneType() const;

  const ApplyXlaOp& op_;
  const tensorflow::DataType dtype_;
  const int count_;
  std::vector<tensorflow::TensorShape> shapes_;
  std::vector<Arrays> all_;
  std::vector<xla::XlaOp> numbers_;
  xla::XlaOp misfit_;
  int64_t table_rows_ = std::numeric_limits<int64_t>::max();
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_APPLY_OPERANDS_H_
