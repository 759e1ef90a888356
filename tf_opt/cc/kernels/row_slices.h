// The gradients of an op that takes them as slices: values, and which rows of a
// table they are of.
#ifndef TF_OPT_CC_KERNELS_ROW_SLICES_H_
#define TF_OPT_CC_KERNELS_ROW_SLICES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/engines/parallel_for.h"
#include "tf_opt/cc/engines/sparse_gradient.h"
#include "tf_opt/cc/kernels/storage_type.h"

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

// T is TensorFlow's type.
template <typename T>
class RowSlices {
 public:
  using Element = typename StorageTypeOf<T>::type;

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

  // Whether the i-th one can be of a table of this shape.
  absl::Status CheckShapes(int i, const tensorflow::TensorShape& table) const {
    if (table.dims() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("`variables[", i, "]`", Name(i),
                       " must have rows to have a sparse gradient, got a "
                       "scalar"));
    }
    tensorflow::TensorShape values = table;
    values.set_dim(0, indices_[i].NumElements());
    if (indices_[i].dims() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`indices[", i, "]`", Name(i), " must be a vector, got shape ",
          indices_[i].shape().DebugString()));
    }
    if (values_[i].shape() != values) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`gradients[", i, "]`", Name(i), " must have one row of `variables[",
          i, "]` for each of the ", indices_[i].NumElements(), " `indices[", i,
          "]`, shape ", values.DebugString(), ", got ",
          values_[i].shape().DebugString()));
    }
    if (accumulated_rows_.size() > 0 && accumulated_rows_[i].dims() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`accumulated_rows[", i, "]`", Name(i), " must be a vector, got ",
          "shape ", accumulated_rows_[i].shape().DebugString()));
    }
    return absl::OkStatus();
  }

  // All of them, sorted by rows, of which there are rows_of(i) in the i-th
  // table; after their shapes have been checked.
  template <typename RowsOf>
  absl::Status Sort(const RowsOf& rows_of, int num_threads,
                    const ParallelFor& parallel_for,
                    std::vector<SparseGradient<Element>>* sorted) const {
    sorted->resize(size());
    std::vector<absl::Status> statuses(size());
    const auto body = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        statuses[i] = SortOne(i, rows_of(i), &(*sorted)[i]);
      }
    };
    if (size() == 1 || num_threads <= 1) {
      body(0, size());
    } else {
      parallel_for(size(), 1, body);
    }
    for (const absl::Status& status : statuses) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status SortOne(int i, int64_t rows,
                       SparseGradient<Element>* sorted) const {
    sorted->values = static_cast<const Element*>(values_[i].data());
    sorted->width = 1;
    for (int k = 1; k < values_[i].dims(); ++k) {
      sorted->width *= values_[i].dim_size(k);
    }
    const bool has_more = accumulated_rows_.size() > 0;
    sorted->entries.reserve(
        indices_[i].NumElements() +
        (has_more ? accumulated_rows_[i].NumElements() : 0));
    absl::Status status =
        Add("indices", indices_[i], i, rows, true, &sorted->entries);
    if (!status.ok()) return status;
    if (has_more) {
      status = Add("accumulated_rows", accumulated_rows_[i], i, rows, false,
                   &sorted->entries);
      if (!status.ok()) return status;
    }
    SortByRow(rows, &sorted->entries);
    return absl::OkStatus();
  }

  absl::Status Add(const char* input, const tensorflow::Tensor& tensor, int i,
                   int64_t rows, bool has_values,
                   std::vector<RowEntry>* entries) const {
    return tensor.dtype() == tensorflow::DT_INT32
               ? Add<int32_t>(input, tensor, i, rows, has_values, entries)
               : Add<int64_t>(input, tensor, i, rows, has_values, entries);
  }

  template <typename Index>
  absl::Status Add(const char* input, const tensorflow::Tensor& tensor, int i,
                   int64_t rows, bool has_values,
                   std::vector<RowEntry>* entries) const {
    const auto* const indices = static_cast<const Index*>(tensor.data());
    for (int64_t k = 0; k < tensor.NumElements(); ++k) {
      const int64_t row = indices[k];
      if (row < 0 || row >= rows) {
        return absl::InvalidArgumentError(absl::StrCat(
            "`", input, "[", i, "]`", Name(i), " must be in [0, ", rows,
            "), the rows of `variables[", i, "]`, got ", row, " at ", k));
      }
      entries->push_back({row, has_values ? k : RowEntry::kNoValues});
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

  const SliceAttributes& attributes_;
  tensorflow::OpInputList values_;
  tensorflow::OpInputList indices_;
  tensorflow::OpInputList accumulated_rows_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_ROW_SLICES_H_
