#include "tf_opt/cc/ops/operand_checks.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/rules/coasting.h"

namespace tf_opt {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::DataTypeSet;
using ::tensorflow::DataTypeString;
using ::tensorflow::PartialTensorShape;

// Types that an operand may have if the variables are of type `variable`.
DataTypeSet TypesOf(const Operand& operand, DataType variable) {
  if (operand.storage == Storage::kVariable) return ToSet(variable);
  if (operand.storage == Storage::kSince) return ToSet(tensorflow::DT_FLOAT);
  if (operand.storage == Storage::kCoasting) {
    return ToSet(tensorflow::DT_DOUBLE);
  }
  const DataTypeSet arithmetic = ToSet(ArithmeticType(variable));
  if (operand.storage == Storage::kArithmetic) return arithmetic;
  return arithmetic | ToSet(tensorflow::DT_FLOAT) |
         ToSet(tensorflow::DT_BFLOAT16);
}

bool MayBeEqual(int64_t a, int64_t b) { return a < 0 || b < 0 || a == b; }

// Whether a's dimensions from `skipped_of_a` on may be b's from `skipped_of_b`
// on. It makes no shape: one that is too large ends the process.
bool DimensionsFit(const PartialTensorShape& a, int skipped_of_a,
                   const PartialTensorShape& b, int skipped_of_b) {
  if (a.unknown_rank() || b.unknown_rank()) return true;
  if (a.dims() - skipped_of_a != b.dims() - skipped_of_b) return false;
  for (int k = skipped_of_b; k < b.dims(); ++k) {
    if (!MayBeEqual(a.dim_size(k - skipped_of_b + skipped_of_a),
                    b.dim_size(k))) {
      return false;
    }
  }
  return true;
}

// Checks a variable of waiting rows of a table of shape `table`.
absl::Status CheckWaiting(const Operand& operand, int i,
                          const PartialTensorShape& table,
                          const PartialTensorShape& found) {
  const bool is_since = operand.storage == Storage::kSince;
  if (found.unknown_rank() ||
      (is_since ? found.dims() == 1 &&
                      (table.dims() < 1 ||
                       MayBeEqual(found.dim_size(0), table.dim_size(0)))
                : found.dims() == 2 && found.dim_size(0) != 0 &&
                      MayBeEqual(found.dim_size(1), MissedSteps::kColumns))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "`", operand.name, "[", i, "]` must be ",
      is_since ? "a vector with one element for each row of `variables"
               : absl::StrCat("a matrix with ", MissedSteps::kColumns,
                              " columns and at least one row for "
                              "`variables"),
      "[", i, "]`, ", table.DebugString(), ", got ", found.DebugString()));
}

}  // namespace

std::string OpName(const std::string& rule, bool sparse) {
  return absl::StrCat("TfOpt>Resource", sparse ? "Sparse" : "", "Apply", rule);
}

absl::Status CheckLength(const std::string& name, const char* what,
                         bool optional, int count, int64_t found) {
  if (found == count || (optional && found == 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`", name, "` must have one ", what, " for each of the ", count,
      " `gradients`", optional ? " or be empty" : "", ", got ", found));
}

absl::Status CheckOperand(const Operand& operand, int i, DataType variable,
                          DataType type, const PartialTensorShape& shape,
                          const std::string& whose,
                          const PartialTensorShape& found) {
  const DataTypeSet types = TypesOf(operand, variable);
  if (!types.Contains(type)) {
    const auto append = [](std::string* text, DataType type) {
      absl::StrAppend(text, DataTypeString(type));
    };
    return absl::InvalidArgumentError(absl::StrCat(
        "`", operand.name, "[", i, "]` must be a variable of ",
        absl::StrJoin(types, " or ", append), ", got ", DataTypeString(type)));
  }
  if (operand.is_of_waiting_rows()) {
    return CheckWaiting(operand, i, shape, found);
  }
  const bool is_table = operand.is_row_of_table();
  if (DimensionsFit(found, is_table ? 1 : 0, shape, 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`", operand.name, "[", i, "]` must ", is_table ? "hold rows of" : "have",
      " the shape of `", whose, "[", i, "]`, ", shape.DebugString(), ", got ",
      found.DebugString()));
}

absl::Status CheckScalarShape(const std::string& name,
                              const PartialTensorShape& found) {
  if (found.dims() <= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`", name, "` must be a scalar, got shape ", found.DebugString()));
}

absl::Status CheckPerVariableShape(const std::string& name, int count,
                                   const PartialTensorShape& found) {
  if (found.dims() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", name, "` must be a scalar or a vector, got shape ",
                     found.DebugString()));
  }
  if (found.dims() < 1 || MayBeEqual(found.dim_size(0), count)) {
    return absl::OkStatus();
  }
  return CheckLength(name, "element", /*optional=*/false, count,
                     found.dim_size(0));
}

absl::Status CheckIsVector(const std::string& list, int i,
                           const std::string& name,
                           const PartialTensorShape& found) {
  if (found.unknown_rank() || found.dims() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`", list, "[", i, "]`", name,
                   " must be a vector, got shape ", found.DebugString()));
}

absl::Status CheckSliceShapes(int i, const std::string& name,
                              const PartialTensorShape& table,
                              const PartialTensorShape& values,
                              const PartialTensorShape& indices) {
  if (table.dims() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`variables[", i, "]`", name,
        " must have rows to have a sparse gradient, got a scalar"));
  }
  TF_RETURN_IF_ERROR(CheckIsVector("indices", i, name, indices));
  if (DimensionsFit(values, 1, table, 1) &&
      (values.dims() < 1 || indices.unknown_rank() ||
       MayBeEqual(values.dim_size(0), indices.dim_size(0)))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "`gradients[", i, "]`", name, " must have one row of `variables[", i,
      "]`, shape ", table.DebugString(), ", for each of `indices[", i,
      "]`, shape ", indices.DebugString(), ", got shape ",
      values.DebugString()));
}

}  // namespace tf_opt
