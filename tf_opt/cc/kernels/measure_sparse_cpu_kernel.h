// The CPU kernel of TfOpt>MeasureSparseGradients.
#ifndef TF_OPT_CC_KERNELS_MEASURE_SPARSE_CPU_KERNEL_H_
#define TF_OPT_CC_KERNELS_MEASURE_SPARSE_CPU_KERNEL_H_

#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/denormal.h"
#include "tf_opt/cc/engines/measure_sparse_cpu.h"
#include "tf_opt/cc/kernels/measure_launch.h"
#include "tf_opt/cc/kernels/measure_sparse_kernel.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/sorted_slices.h"
#include "tf_opt/cc/kernels/worker_threads.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {

// T is TensorFlow's type of the gradients.
template <typename T>
class MeasureSparseGradientsCpuOp : public MeasureSparseGradientsOp<T> {
 public:
  using Base = MeasureSparseGradientsOp<T>;
  using Base::Base;

  void Compute(tensorflow::OpKernelContext* context) override {
    using Element = typename MeasureLaunch<T>::Storage;
    RowSlices slices(Base::attributes());
    std::vector<tensorflow::TensorShape> shapes;
    MeasureLaunch<T> launch;
    OP_REQUIRES_OK(context, Base::Prepare(context, &slices, &shapes, &launch));
    std::vector<Measure> measures(launch.size(), {0, true});
    if (ReadOnce(launch.enabled())) {
      const WorkerThreads workers(context);
      std::vector<SparseGradient<Element>> gradients;
      OP_REQUIRES_OK(context,
                     SortSlices(
                         slices, [this](int i) { return Base::rows(i); },
                         workers.count(), workers.parallel_for(), &gradients));
      std::vector<MeasuredTable<Element>> tables;
      for (int i = 0; i < launch.size(); ++i) {
        tables.push_back({&gradients[i], launch.accumulator(i),
                          shapes[i].num_elements(), Base::attributes().lazy});
      }
      const tensorflow::port::ScopedFlushDenormal flush_denormals;
      measures = MeasureSparseGradients<Element>(
          tables, ReadOnce(launch.gradient_scale()), ChosenCpuTarget(),
          workers.count(), workers.parallel_for());
    }
    launch.Return(measures);
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_MEASURE_SPARSE_CPU_KERNEL_H_
