// Checks of a step's operands, with errors that name them. Shape functions and
// kernels share them: unknown parts of a shape fit everything.
#ifndef TF_OPT_CC_OPS_OPERAND_CHECKS_H_
#define TF_OPT_CC_OPS_OPERAND_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/rules/operand.h"

namespace tf_opt {

// The inputs of every resource-apply op that are one number for all variables
// or a vector with one for each.
inline constexpr const char* kPerVariableInputs[] = {
    "weight_decay", "learning_rate_factors", "gradient_factors",
    "variable_numbers"};

// Name of the resource-apply op of a rule (RuleInfo::op).
std::string OpName(const std::string& rule, bool sparse);

// Type of the arithmetic on variables of type `variable`.
inline tensorflow::DataType ArithmeticType(tensorflow::DataType variable) {
  return variable == tensorflow::DT_DOUBLE ? tensorflow::DT_DOUBLE
                                           : tensorflow::DT_FLOAT;
}

// Checks that the list `name` has one `what` for each of `count` gradients; an
// optional one may be empty.
absl::Status CheckLength(const std::string& name, const char* what,
                         bool optional, int count, int64_t found);

// Checks the i-th array of an operand, of type `type` and shape `found`, for
// variables of type `variable`. It must have the shape of the i-th array of
// the list `whose`; if the operand is a row of a table, its rows must.
absl::Status CheckOperand(const Operand& operand, int i,
                          tensorflow::DataType variable,
                          tensorflow::DataType type,
                          const tensorflow::PartialTensorShape& shape,
                          const std::string& whose,
                          const tensorflow::PartialTensorShape& found);

// Checks that the input `name` is a scalar.
absl::Status CheckScalarShape(const std::string& name,
                              const tensorflow::PartialTensorShape& found);

// Checks that it is a scalar, or a vector with one element for each of `count`
// variables.
absl::Status CheckPerVariableShape(const std::string& name, int count,
                                   const tensorflow::PartialTensorShape& found);

// Checks that the i-th array of the list `list` is a vector; errors call the
// table `name`.
absl::Status CheckIsVector(const std::string& list, int i,
                           const std::string& name,
                           const tensorflow::PartialTensorShape& found);

// Checks slices against the shape `table` of the i-th variable.
absl::Status CheckSliceShapes(int i, const std::string& name,
                              const tensorflow::PartialTensorShape& table,
                              const tensorflow::PartialTensorShape& values,
                              const tensorflow::PartialTensorShape& indices);

}  // namespace tf_opt

#endif  // TF_OPT_CC_OPS_OPERAND_CHECKS_H_
