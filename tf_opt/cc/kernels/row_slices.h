// Gradients as slices: values, and the row of a table for each of them.
#ifndef TF_OPT_CC_KERNELS_ROW_SLICES_H_
#define TF_OPT_CC_KERNELS_ROW_SLICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_opt {

// Row numbers, int32_t or int64_t.
struct RowNumbers {
  const void* data = nullptr;
  int64_t count = 0;
  bool wide = false;  // True if they are int64_t.
};

// The gradient of one table in device memory, with checked shapes.
struct RowSlices {
  const void* values = nullptr;  // Rows of `width` elements.
  int64_t width = 0;             // Elements of a row.
  RowNumbers indices;            // Row of the table for each row of values.
  RowNumbers accumulated_rows;   // Rows without values.
};

// Attributes of ops that take slices.
class SliceAttributes {
 public:
  absl::Status Read(tensorflow::AttrSlice attributes) {
    TF_RETURN_IF_ERROR(GetNodeAttr(attributes, "lazy", &lazy_));
    return GetNodeAttr(attributes, "tables", &names_);
  }

  bool lazy() const { return lazy_; }

  // Describes the i-th table in errors, after its index.
  std::string Name(int i) const {
    return i < static_cast<int>(names_.size())
               ? absl::StrCat(" (of ", names_[i], ")")
               : "";
  }

 private:
  bool lazy_ = false;
  std::vector<std::string> names_;  // May be empty.
};

// Checks the input `rows`: one number of rows for each of `count` gradients.
inline absl::Status CheckTableRows(int count,
                                   const std::vector<int64_t>& rows) {
  if (static_cast<int>(rows.size()) != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("`rows` must have one element for each of the ", count,
                     " `gradients`, got ", rows.size()));
  }
  for (const int64_t number : rows) {
    if (number >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("`rows` must not be negative, got ", number));
  }
  return absl::OkStatus();
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_ROW_SLICES_H_
