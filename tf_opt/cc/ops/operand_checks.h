// What an array of an operand must be, and the error that says what it is.
#ifndef TF_OPT_CC_OPS_OPERAND_CHECKS_H_
#define TF_OPT_CC_OPS_OPERAND_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/ops/operand_types.h"

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

}  // namespace tf_opt

#endif  // TF_OPT_CC_OPS_OPERAND_CHECKS_H_
