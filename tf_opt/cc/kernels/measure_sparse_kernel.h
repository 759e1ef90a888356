// What the kernels of TfOpt>MeasureSparseGradients share, on any device.
#ifndef TF_OPT_CC_KERNELS_MEASURE_SPARSE_KERNEL_H_
#define TF_OPT_CC_KERNELS_MEASURE_SPARSE_KERNEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
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
  }

 protected:
  // Looks up and checks all inputs; `rows` becomes how many each table has,
  // and `shapes` those of the tables.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       SliceInputs* slices, std::vector<int64_t>* rows,
                       std::vector<tensorflow::TensorShape>* shapes,
                       MeasureLaunch<T>* launch) const {
    absl::Status status = slices->Find(context);
    if (!status.ok()) return status;
    const tensorflow::Tensor* tensor;
    status = context->input("rows", &tensor);
    if (!status.ok()) return status;
    const auto* const numbers = static_cast<const int64_t*>(tensor->data());
    rows->assign(numbers, numbers + tensor->NumElements());
    status = CheckTableRows(slices->size(), *rows);
    if (!status.ok()) return status;
    for (int i = 0; i < slices->size(); ++i) {
      const absl::StatusOr<tensorflow::TensorShape> shape =
          TableShape((*rows)[i], slices->values(i).shape());
      if (!shape.ok()) return shape.status();
      status = slices->CheckShapes(i, *shape);
      if (!status.ok()) return status;
      shapes->push_back(*shape);
    }
    return launch->Prepare(context, shapes);
  }

  const SliceAttributes& attributes() const { return attributes_; }

 private:
  SliceAttributes attributes_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_MEASURE_SPARSE_KERNEL_H_
