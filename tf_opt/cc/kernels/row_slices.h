// The gradients of an op that takes them as slices: values, and which rows of a
// table they are of.
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

// Numbers of rows, int32_t or int64_t.
struct RowNumbers {
  const void* data = nullptr;
  int64_t count = 0;
  bool wide = false;  // Whether they are int64_t.
};

// The gradient of one table, in the memory of the device, once its shapes have
// been checked.
struct RowSlices {
  const void* values = nullptr;  // Rows of ...
  int64_t width = 0;             // ... so many elements, ...
  RowNumbers indices;            // ... each of this row of the table, ...
  RowNumbers accumulated_rows;   // ... and rows that have no values.
};

// An op's attributes about them.
class SliceAttributes {
 public:
  absl::Status Read(tensorflow::AttrSlice attributes) {
    TF_RETURN_IF_ERROR(GetNodeAttr(attributes, "lazy", &lazy_));
    return GetNodeAttr(attributes, "tables", &names_);
  }

  bool lazy() const { return lazy_; }

  // What errors call the i-th table, behind its place in a list.
  std::string Name(int i) const {
    return i < static_cast<int>(names_.size())
               ? absl::StrCat(" (of ", names_[i], ")")
               : "";
  }

 private:
  bool lazy_ = false;
  std::vector<std::string> names_;  // Or none.
};

// Whether the input `rows` says of each of `count` gradients how many rows its
// table has.
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
