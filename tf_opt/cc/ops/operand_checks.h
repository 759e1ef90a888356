// Checks of an operand's array, with errors that describe it.
#ifndef TF_OPT_CC_OPS_OPERAND_CHECKS_H_
#define TF_OPT_CC_OPS_OPERAND_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {

// Checks that the i-th variable of the list `name` has one of `types`.
absl::Status CheckType(const std::string& name, int i, const TypeList& types,
                       tensorflow::DataType found);

// Checks that the i-th array of the list `name` has the shape of the i-th array
// of the list `whose`.
absl::Status CheckShape(const std::string& name, int i,
                        const tensorflow::TensorShape& shape,
                        const std::string& whose,
                        const tensorflow::TensorShape& found);

// Checks that it is a table of such rows: [rows] + `shape`.
absl::Status CheckTableShape(const std::string& name, int i,
                             const tensorflow::TensorShape& shape,
                             const std::string& whose,
                             const tensorflow::TensorShape& found);

// The error for one variable in two places.
absl::Status SameVariable(const std::string& one, const std::string& other);

// The error for a gradient that is smaller than the space XLA has for it.
absl::Status GradientDoesNotFit(int64_t i);

// The error for an input `name` out of its range.
absl::Status OutOfRange(const std::string& name, Range range, double found);

// Checks that the input `name` is a scalar.
absl::Status CheckScalarShape(const std::string& name,
                              const tensorflow::TensorShape& found);

// Checks that it is a scalar, or a vector with one element for each of `count`
// variables.
absl::Status CheckPerVariableShape(const std::string& name, int count,
                                   const tensorflow::TensorShape& found);

// Checks that there is a vector of accumulated rows for each of `count` sparse
// gradients, or none.
absl::Status CheckAccumulatedRows(int count, int found);

// Returns the shape of a table with this many rows whose gradient has the shape
// `values`.
absl::StatusOr<tensorflow::TensorShape> TableShape(
    int64_t rows, const tensorflow::TensorShape& values);

// Checks slices against the shape `table` of the i-th variable, which errors
// call `name`; `accumulated_rows` may be null.
absl::Status CheckSliceShapes(int i, const std::string& name,
                              const tensorflow::TensorShape& table,
                              const tensorflow::TensorShape& values,
                              const tensorflow::TensorShape& indices,
                              const tensorflow::TensorShape* accumulated_rows);

}  // namespace tf_opt

#endif  // TF_OPT_CC_OPS_OPERAND_CHECKS_H_
