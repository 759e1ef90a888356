// The CPU kernel of TfOpt>MeasureSparseGradients.
#ifndef TF_OPT_CC_KERNELS_MEASURE_SPARSE_CPU_KERNEL_H_
#define TF_OPT_CC_KERNELS_MEASURE_SPARSE_CPU_KERNEL_H_

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/denormal.h"
#include "tf_opt/cc/engines/measure_sparse_cpu.h"
#include "tf_opt/cc/kernels/measure_launch.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/worker_threads.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {

// T is TensorFlow's type of the gradients.
template <typename T>
class MeasureSparseGradientsCpuOp : public tensorflow::OpKernel {
 public:
  explicit MeasureSparseGradientsCpuOp(
      tensorflow::OpKernelConstruction* context)
      : OpKernel(context), attributes_(context) {
    int count = 0;
    OP_REQUIRES_OK(context, context->GetAttr("N", &count));
    OP_REQUIRES_OK(context, context->GetAttr("rows", &rows_));
    OP_REQUIRES(context, static_cast<int>(rows_.size()) == count,
                absl::InvalidArgumentError(absl::StrCat(
                    "`rows` must have one element for each of the ", count,
                    " `gradients`, got ", rows_.size())));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    using Element = typename MeasureLaunch<T>::Storage;
    RowSlices<T> slices(attributes_);
    OP_REQUIRES_OK(context, slices.Find(context));
    std::vector<tensorflow::TensorShape> shapes;
    for (int i = 0; i < slices.size(); ++i) {
      tensorflow::TensorShape shape = slices.values(i).shape();
      if (shape.dims() > 0) shape.set_dim(0, rows_[i]);
      OP_REQUIRES_OK(context, slices.CheckShapes(i, shape));
      shapes.push_back(shape);
    }
    MeasureLaunch<T> launch;
    OP_REQUIRES_OK(context, launch.Prepare(context, &shapes));
    std::vector<Measure> measures(launch.size(), {0, true});
    if (ReadOnce(launch.enabled())) {
      const WorkerThreads workers(context);
      std::vector<SparseGradient<Element>> gradients;
      OP_REQUIRES_OK(context, slices.Sort([this](int i) { return rows_[i]; },
                                          workers.count(),
                                          workers.parallel_for(), &gradients));
      std::vector<MeasuredTable<Element>> tables;
      for (int i = 0; i < launch.size(); ++i) {
        tables.push_back({&gradients[i], launch.accumulator(i),
                          shapes[i].num_elements(), attributes_.lazy});
      }
      const tensorflow::port::ScopedFlushDenormal flush_denormals;
      measures = MeasureSparseGradients<Element>(
          tables, ReadOnce(launch.gradient_scale()), ChosenCpuTarget(),
          workers.count(), workers.parallel_for());
    }
    launch.Return(measures);
  }

 private:
  const SliceAttributes attributes_;
  std::vector<int64_t> rows_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_MEASURE_SPARSE_CPU_KERNEL_H_
