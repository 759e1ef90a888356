// Slices among the inputs of a running op.
#ifndef TF_OPT_CC_KERNELS_SLICE_INPUTS_H_
#define TF_OPT_CC_KERNELS_SLICE_INPUTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/ops/operand_checks.h"

namespace tf_opt {

class SliceInputs {
 public:
  explicit SliceInputs(const SliceAttributes& attributes)
      : attributes_(attributes) {}

  // Looks up the inputs.
  absl::Status Find(tensorflow::OpKernelContext* context) {
    TF_RETURN_IF_ERROR(context->input_list("gradients", &values_));
    TF_RETURN_IF_ERROR(context->input_list("indices", &indices_));
    TF_RETURN_IF_ERROR(
        context->input_list("accumulated_rows", &accumulated_rows_));
    return CheckAccumulatedRows(size(), accumulated_rows_.size());
  }

  int size() const { return values_.size(); }

  const tensorflow::Tensor& values(int i) const { return values_[i]; }

  // Checks the i-th slices against the shape of their table.
  absl::Status CheckShapes(int i, const tensorflow::TensorShape& table) const {
    return CheckSliceShapes(
        i, attributes_.Name(i), table, values_[i].shape(), indices_[i].shape(),
        has_accumulated_rows() ? &accumulated_rows_[i].shape() : nullptr);
  }

  // Returns all slices; check their shapes first.
  std::vector<RowSlices> Slices() const {
    std::vector<RowSlices> slices(size());
    for (int i = 0; i < size(); ++i) {
      slices[i].values = values_[i].data();
      slices[i].width = Width(values_[i]);
      slices[i].indices = Rows(indices_[i]);
      if (has_accumulated_rows()) {
        slices[i].accumulated_rows = Rows(accumulated_rows_[i]);
      }
    }
    return slices;
  }

 private:
  bool has_accumulated_rows() const { return accumulated_rows_.size() > 0; }

  static int64_t Width(const tensorflow::Tensor& values) {
    // Unsigned: without rows, the product may overflow.
    uint64_t width = 1;
    for (int k = 1; k < values.dims(); ++k) width *= values.dim_size(k);
    return static_cast<int64_t>(width);
  }

  static RowNumbers Rows(const tensorflow::Tensor& tensor) {
    return {tensor.data(), tensor.NumElements(),
            tensor.dtype() == tensorflow::DT_INT64};
  }

  const SliceAttributes& attributes_;
  tensorflow::OpInputList values_;
  tensorflow::OpInputList indices_;
  tensorflow::OpInputList accumulated_rows_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SLICE_INPUTS_H_
