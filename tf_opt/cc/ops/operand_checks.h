// What an array of an operand must be, and the error that says what it is.
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

// Whether the i-th variable of the list `name` holds one of `types`.
absl::Status CheckType(const std::string& name, int i, const TypeList& types,
                       tensorflow::DataType found);

// Whether the i-th array of the list `name` has the shape `shape`, that of the
// i-th of the list `whose`.
absl::Status CheckShape(const std::string& name, int i,
                        const tensorflow::TensorShape& shape,
                        const std::string& whose,
                        const tensorflow::TensorShape& found);

// Whether it is a table of rows of that shape: [rows] + `shape`.
absl::Status CheckTableShape(const std::string& name, int i,
                             const tensorflow::TensorShape& shape,
                             const std::string& whose,
                             const tensorflow::TensorShape& found);

// The error for two entries of lists that are one variable.
absl::Status SameVariable(const std::string& one, const std::string& other);

// The error for a gradient that XLA found more room for than it has elements.
absl::Status GradientDoesNotFit(int64_t i);

// The error for a number of the input `name` that isn't in its range.
absl::Status OutOfRange(const std::string& name, Range range, double found);

// Whether the input `name` is a scalar.
absl::Status CheckScalarShape(const std::string& name,
                              const tensorflow::TensorShape& found);

// Whether it is one, or a vector with an element for each of `count` variables.
absl::Status CheckPerVariableShape(const std::string& name, int count,
                                   const tensorflow::TensorShape& found);

// Whether there is a vector of accumulated rows for each of `count` gradients
// that are slices, or none at all.
absl::Status CheckAccumulatedRows(int count, int found);

// The shape of a table of so many rows, whose gradient has `values`.
absl::StatusOr<tensorflow::TensorShape> TableShape(
    int64_t rows, const tensorflow::TensorShape& values);

// Whether slices can be the gradient of the i-th variable, which errors call
// `name`, of the shape `table`; `accumulated_rows` may be null.
absl::Status CheckSliceShapes(int i, const std::string& name,
                              const tensorflow::TensorShape& table,
                              const tensorflow::TensorShape& values,
                              const tensorflow::TensorShape& indices,
                              const tensorflow::TensorShape* accumulated_rows);

}  // namespace tf_opt

#endif  // TF_OPT_CC_OPS_OPERAND_CHECKS_H_
