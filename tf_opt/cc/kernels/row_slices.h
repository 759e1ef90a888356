// The gradients of an op that takes them as slices: values, and which rows of a
// table they are of. Here is what their shapes say, on any device.
#ifndef TF_OPT_CC_KERNELS_ROW_SLICES_H_
#define TF_OPT_CC_KERNELS_ROW_SLICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tf_opt {

// An op's attributes about them.
struct SliceAttributes {
  explicit SliceAttributes(tensorflow::OpKernelConstruction* context) {
    OP_REQUIRES_OK(context, context->GetAttr("lazy", &lazy));
    OP_REQUIRES_OK(context, context->GetAttr("tables", &names));
  }

  bool lazy = false;
  std::vector<std::string> names;  // For errors; or none.
};

// An op's inputs that are slices.
class RowSlices {
 public:
  explicit RowSlices(const SliceAttributes& attributes)
      : attributes_(attributes) {}

  // Looks up the op's inputs.
  absl::Status Find(tensorflow::OpKernelContext* context) {
    absl::Status status = context->input_list("gradients", &values_);
    if (!status.ok()) return status;
    status = context->input_list("indices", &indices_);
    if (!status.ok()) return status;
    status = context->input_list("accumulated_rows", &accumulated_rows_);
    if (!status.ok()) return status;
    if (accumulated_rows_.size() == 0 || accumulated_rows_.size() == size()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "`accumulated_rows` must be empty or have one vector for each of the ",
        size(), " `gradients`, got ", accumulated_rows_.size()));
  }

  int size() const { return values_.size(); }
  const tensorflow::Tensor& values(int i) const { return values_[i]; }
  const tensorflow::Tensor& indices(int i) const { return indices_[i]; }

  // Whether there are rows without values.
  bool has_accumulated_rows() const { return accumulated_rows_.size() > 0; }
  const tensorflow::Tensor& accumulated_rows(int i) const {
    return accumulated_rows_[i];
  }

  // Elements of a row.
  int64_t width(int i) const {
    // Of a table without rows it may be any product.
    uint64_t width = 1;
    for (int k = 1; k < values_[i].dims(); ++k) width *= values_[i].dim_size(k);
    return static_cast<int64_t>(width);
  }

  // Whether the i-th one can be of a table of this shape.
  absl::Status CheckShapes(int i, const tensorflow::TensorShape& table) const {
    if (table.dims() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("`variables[", i, "]`", Name(i),
                       " must have rows to have a sparse gradient, got a "
                       "scalar"));
    }
    if (indices_[i].dims() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`indices[", i, "]`", Name(i), " must be a vector, got shape ",
          indices_[i].shape().DebugString()));
    }
    // Not by making a shape: one that is too large ends the process.
    const tensorflow::TensorShape& values = values_[i].shape();
    bool fits = values.dims() == table.dims() &&
                values.dim_size(0) == indices_[i].NumElements();
    for (int k = 1; fits && k < table.dims(); ++k) {
      fits = values.dim_size(k) == table.dim_size(k);
    }
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`gradients[", i, "]`", Name(i), " must have one row of `variables[",
          i, "]`, shape ", table.DebugString(), ", for each of the ",
          indices_[i].NumElements(), " `indices[", i, "]`, got shape ",
          values.DebugString()));
    }
    if (has_accumulated_rows() && accumulated_rows_[i].dims() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`accumulated_rows[", i, "]`", Name(i), " must be a vector, got ",
          "shape ", accumulated_rows_[i].shape().DebugString()));
    }
    return absl::OkStatus();
  }

  // What the user calls the table.
  std::string Name(int i) const {
    const std::vector<std::string>& names = attributes_.names;
    return i < static_cast<int>(names.size())
               ? absl::StrCat(" (of ", names[i], ")")
               : "";
  }

 private:
  const SliceAttributes& attributes_;
  tensorflow::OpInputList values_;
  tensorflow::OpInputList indices_;
  tensorflow::OpInputList accumulated_rows_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_ROW_SLICES_H_
