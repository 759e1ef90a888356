// The CPU kernel of TfOpt>MeasureGradients.
#ifndef TF_OPT_CC_KERNELS_MEASURE_CPU_KERNEL_H_
#define TF_OPT_CC_KERNELS_MEASURE_CPU_KERNEL_H_

#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/denormal.h"
#include "tf_opt/cc/engines/cpu/measure_cpu.h"
#include "tf_opt/cc/kernels/measure_launch.h"
#include "tf_opt/cc/kernels/worker_threads.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {

// T is TensorFlow's type of the gradients.
template <typename T>
class MeasureGradientsCpuOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    MeasureLaunch<T> launch;
    OP_REQUIRES_OK(context, launch.Prepare(context));
    std::vector<Measure> measures(launch.size(), {0, true});
    if (ReadOnce(launch.enabled())) {
      // As where gradients are applied: TensorFlow's threads flush denormals
      // to zero, and this one must not give other numbers.
      const tensorflow::port::ScopedFlushDenormal flush_denormals;
      const WorkerThreads workers(context);
      measures = MeasureGradients<typename MeasureLaunch<T>::Storage>(
          launch.Tensors(), ReadOnce(launch.gradient_scale()),
          ChosenCpuTarget(), workers.count(), workers.parallel_for());
    }
    launch.Return(measures);
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_MEASURE_CPU_KERNEL_H_
