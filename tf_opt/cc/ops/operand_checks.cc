#include "tf_opt/cc/ops/operand_checks.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/errors.h"

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

absl::Status SameVariable(const std::string& one, const std::string& other) {
  return absl::InvalidArgumentError(
      absl::StrCat("`", one, "` and `", other,
                   "` are the same variable; each must occur once"));
}

absl::Status GradientDoesNotFit(int64_t i) {
  return absl::InvalidArgumentError(
      absl::StrCat("`gradients[", i, "]` must have the shape of `variables[", i,
                   "]`, but it has another size"));
}

absl::Status OutOfRange(const std::string& name, Range range, double found) {
  return absl::InvalidArgumentError(
      absl::StrCat("`", name, "` must be ", Describe(range), ", got ", found));
}

absl::Status CheckScalarShape(const std::string& name,
                              const TensorShape& found) {
  if (found.dims() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`", name, "` must be a scalar, got shape ", found.DebugString()));
}

absl::Status CheckPerVariableShape(const std::string& name, int count,
                                   const TensorShape& found) {
  if (found.dims() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", name, "` must be a scalar or a vector, got shape ",
                     found.DebugString()));
  }
  if (found.dims() == 1 && found.num_elements() != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", name, "` must have one element for each of the ",
                     count, " `variables`, got ", found.num_elements()));
  }
  return absl::OkStatus();
}

absl::Status CheckAccumulatedRows(int count, int found) {
  if (found == 0 || found == count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`accumulated_rows` must be empty or have one vector for each of the ",
      count, " `gradients`, got ", found));
}

absl::StatusOr<TensorShape> TableShape(int64_t rows,
                                       const TensorShape& values) {
  TensorShape shape = values;
  // One without rows is for CheckSliceShapes to refuse.
  if (shape.dims() == 0) return shape;
  TF_RETURN_IF_ERROR(shape.SetDimWithStatus(0, rows));
  return shape;
}

absl::Status CheckSliceShapes(int i, const std::string& name,
                              const TensorShape& table,
                              const TensorShape& values,
                              const TensorShape& indices,
                              const TensorShape* accumulated_rows) {
  if (table.dims() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`variables[", i, "]`", name,
        " must have rows to have a sparse gradient, got a scalar"));
  }
  if (indices.dims() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("`indices[", i, "]`", name,
                     " must be a vector, got shape ", indices.DebugString()));
  }
  // Not by making a shape: one that is too large ends the process.
  bool fits = values.dims() == table.dims() &&
              values.dim_size(0) == indices.num_elements();
  for (int k = 1; fits && k < table.dims(); ++k) {
    fits = values.dim_size(k) == table.dim_size(k);
  }
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`gradients[", i, "]`", name, " must have one row of `variables[", i,
        "]`, shape ", table.DebugString(), ", for each of the ",
        indices.num_elements(), " `indices[", i, "]`, got shape ",
        values.DebugString()));
  }
  if (accumulated_rows != nullptr && accumulated_rows->dims() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`accumulated_rows[", i, "]`", name, " must be a vector, got shape ",
        accumulated_rows->DebugString()));
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
