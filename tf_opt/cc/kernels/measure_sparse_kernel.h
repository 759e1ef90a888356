// What the kernels of TfOpt>MeasureSparseGradients share, on any device.
#ifndef TF_OPT_CC_KERNELS_MEASURE_SPARSE_KERNEL_H_
#define TF_OPT_CC_KERNELS_MEASURE_SPARSE_KERNEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/kernels/measure_launch.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/slice_inputs.h"

namespace tf_opt {

// T is TensorFlow's type of the gradients.
template <typename T>
class MeasureSparseGradientsOp : public tensorflow::OpKernel {
 public:
  explicit MeasureSparseGradientsOp(tensorflow::OpKernelConstruction* context)
      : OpKernel(context) {
    OP_REQUIRES_OK(context, attributes_.Read(*context));
    OP_REQUIRES_OK(context, ReadTableRows(*context, &rows_));
  }

 protected:
  // Looks up and checks all inputs; `shapes` become those of the tables.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       SliceInputs* slices,
                       std::vector<tensorflow::TensorShape>* shapes,
                       MeasureLaunch<T>* launch) const {
    absl::Status status = slices->Find(context);
    if (!status.ok()) return status;
    for (int i = 0; i < slices->size(); ++i) {
      const absl::StatusOr<tensorflow::TensorShape> shape =
          TableShape(rows_[i], slices->values(i).shape());
      if (!shape.ok()) return shape.status();
      status = slices->CheckShapes(i, *shape);
      if (!status.ok()) return status;
      shapes->push_back(*shape);
    }
    return launch->Prepare(context, shapes);
  }

  const SliceAttributes& attributes() const { return attributes_; }
  // How many each table has.
  const std::vector<int64_t>& rows() const { return rows_; }

 private:
  SliceAttributes attributes_;
  std::vector<int64_t> rows_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_MEASURE_SPARSE_KERNEL_H_
