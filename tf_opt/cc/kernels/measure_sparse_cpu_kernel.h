// The CPU kernel of TfOpt>MeasureSparseGradients.
#ifndef TF_OPT_CC_KERNELS_MEASURE_SPARSE_CPU_KERNEL_H_
#define TF_OPT_CC_KERNELS_MEASURE_SPARSE_CPU_KERNEL_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/kernels/measure_launch.h"
#include "tf_opt/cc/kernels/measure_sparse_kernel.h"
#include "tf_opt/cc/kernels/slice_inputs.h"
#include "tf_opt/cc/kernels/slices_on_cpu.h"
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
    SliceInputs slices(Base::attributes());
    std::vector<int64_t> rows;
    std::vector<tensorflow::TensorShape> shapes;
    MeasureLaunch<T> launch;
    OP_REQUIRES_OK(context,
                   Base::Prepare(context, &slices, &rows, &shapes, &launch));
    std::vector<Measure> measures(launch.size(), {0, true});
    if (ReadOnce(launch.enabled())) {
      const WorkerThreads workers(context);
      OP_REQUIRES_OK(context,
                     MeasureSlices<Element>(
                         slices.Slices(), Base::attributes(), rows,
                         [&](int i) { return launch.accumulator(i); },
                         ReadOnce(launch.gradient_scale()), workers.count(),
                         workers.parallel_for(), &measures));
    }
    launch.Return(measures);
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_MEASURE_SPARSE_CPU_KERNEL_H_
