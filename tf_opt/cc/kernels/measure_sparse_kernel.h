// What the kernels of TfOpt>MeasureSparseGradients share, on any device.
#ifndef TF_OPT_CC_KERNELS_MEASURE_SPARSE_KERNEL_H_
#define TF_OPT_CC_KERNELS_MEASURE_SPARSE_KERNEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/kernels/measure_launch.h"
#include "tf_opt/cc/kernels/row_slices.h"

namespace tf_opt {

// T is TensorFlow's type of the gradients.
template <typename T>
class MeasureSparseGradientsOp : public tensorflow::OpKernel {
 public:
  explicit MeasureSparseGradientsOp(tensorflow::OpKernelConstruction* context)
      : OpKernel(context), attributes_(context) {
    int count = 0;
    OP_REQUIRES_OK(context, context->GetAttr("N", &count));
    OP_REQUIRES_OK(context, context->GetAttr("rows", &rows_));
    OP_REQUIRES(context, static_cast<int>(rows_.size()) == count,
                absl::InvalidArgumentError(absl::StrCat(
                    "`rows` must have one element for each of the ", count,
                    " `gradients`, got ", rows_.size())));
    for (const int64_t rows : rows_) {
      OP_REQUIRES(context, rows >= 0,
                  absl::InvalidArgumentError(
                      absl::StrCat("`rows` must not be negative, got ", rows)));
    }
  }

 protected:
  // Looks up and checks all inputs; `shapes` become those of the tables.
  absl::Status Prepare(tensorflow::OpKernelContext* context, RowSlices* slices,
                       std::vector<tensorflow::TensorShape>* shapes,
                       MeasureLaunch<T>* launch) const {
    absl::Status status = slices->Find(context);
    if (!status.ok()) return status;
    for (int i = 0; i < slices->size(); ++i) {
      tensorflow::TensorShape shape = slices->values(i).shape();
      if (shape.dims() > 0) {
        status = shape.SetDimWithStatus(0, rows_[i]);
        if (!status.ok()) return status;
      }
      status = slices->CheckShapes(i, shape);
      if (!status.ok()) return status;
      shapes->push_back(shape);
    }
    return launch->Prepare(context, shapes);
  }

  const SliceAttributes& attributes() const { return attributes_; }
  // How many the i-th table has.
  int64_t rows(int i) const { return rows_[i]; }

 private:
  const SliceAttributes attributes_;
  std::vector<int64_t> rows_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_MEASURE_SPARSE_KERNEL_H_
