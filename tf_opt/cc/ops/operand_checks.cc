#include "tf_opt/cc/ops/operand_checks.h"

#include "absl/strings/str_cat.h"

namespace tf_opt {

using ::tensorflow::TensorShape;

absl::Status CheckType(const std::string& name, int i, const TypeList& types,
                       tensorflow::DataType found) {
  if (types.Has(found)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`", name, "[", i, "]` must be a variable of ", types.ToString(),
      ", got ", tensorflow::DataTypeString(found)));
}

absl::Status CheckShape(const std::string& name, int i,
                        const TensorShape& shape, const std::string& whose,
                        const TensorShape& found) {
  if (found == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`", name, "[", i, "]` must have the shape of `", whose, "[", i, "]`, ",
      shape.DebugString(), ", got ", found.DebugString()));
}

absl::Status CheckTableShape(const std::string& name, int i,
                             const TensorShape& shape, const std::string& whose,
                             const TensorShape& found) {
  bool fits = found.dims() == shape.dims() + 1;
  for (int k = 0; fits && k < shape.dims(); ++k) {
    fits = found.dim_size(k + 1) == shape.dim_size(k);
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`", name, "[", i, "]` must hold rows of the shape of `", whose, "[", i,
      "]`, ", shape.DebugString(), ", got ", found.DebugString()));
}

}  // namespace tf_opt
