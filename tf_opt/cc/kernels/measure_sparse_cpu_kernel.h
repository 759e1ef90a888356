// The CPU kernel of TfOpt>MeasureSparseGradients.
#ifndef TF_OPT_CC_KERNELS_MEASURE_SPARSE_CPU_KERNEL_H_
#define TF_OPT_CC_KERNELS_MEASURE_SPARSE_CPU_KERNEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/measure_launch.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/scratch.h"
#include "tf_opt/cc/kernels/slice_inputs.h"
#include "tf_opt/cc/kernels/slices_on_cpu.h"
#include "tf_opt/cc/kernels/worker_threads.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {

// T is TensorFlow's type of the gradients.
template <typename T>
class MeasureSparseGradientsCpuOp : public tensorflow::OpKernel {
 public:
  explicit MeasureSparseGradientsCpuOp(
      tensorflow::OpKernelConstruction* context)
      : OpKernel(context) {
    OP_REQUIRES_OK(context, attributes_.Read(context->def()));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    using Element = typename MeasureLaunch<T>::Storage;
    SliceInputs slices(attributes_);
    std::vector<int64_t> rows;
    MeasureLaunch<T> launch;
    OP_REQUIRES_OK(context, Prepare(context, &slices, &rows, &launch));
    std::vector<Measure> measures(launch.size(), {0, true});
    if (ReadOnce(launch.enabled())) {
      const WorkerThreads workers(context);
      OpScratch scratch(context);
      OP_REQUIRES_OK(context,
                     MeasureSlices<Element>(
                         slices.Slices(), attributes_, rows,
                         [&](int i) { return launch.accumulator(i); },
                         ReadOnce(launch.gradient_scale()), workers.count(),
                         workers.parallel_for(), &scratch, &measures));
    }
    launch.Return(measures);
  }

 private:
  // Looks up and checks all inputs. `rows` becomes the number of rows of each
  // table.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       SliceInputs* slices, std::vector<int64_t>* rows,
                       MeasureLaunch<T>* launch) const {
    TF_RETURN_IF_ERROR(slices->Find(context));
    const tensorflow::Tensor* tensor;
    TF_RETURN_IF_ERROR(context->input("rows", &tensor));
    const auto* const numbers = static_cast<const int64_t*>(tensor->data());
    rows->assign(numbers, numbers + tensor->NumElements());
    TF_RETURN_IF_ERROR(CheckTableRows(slices->size(), *rows));
    std::vector<tensorflow::TensorShape> shapes;
    for (int i = 0; i < slices->size(); ++i) {
      const absl::StatusOr<tensorflow::TensorShape> shape =
          TableShape((*rows)[i], slices->values(i).shape());
      if (!shape.ok()) return shape.status();
      TF_RETURN_IF_ERROR(slices->CheckShapes(i, *shape));
      shapes.push_back(*shape);
    }
    return launch->Prepare(context, &shapes);
  }

  SliceAttributes attributes_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_MEASURE_SPARSE_CPU_KERNEL_H_
