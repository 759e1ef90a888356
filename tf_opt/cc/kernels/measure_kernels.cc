// The kernels of TfOpt>MeasureGradients: the CPU's.
#include <algorithm>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/denormal.h"
#include "tf_opt/cc/engines/measure_cpu.h"
#include "tf_opt/cc/kernels/measure_launch.h"
#include "tf_opt/cc/kernels/worker_threads.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {
namespace {

template <typename T>
class MeasureGradientsOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    MeasureLaunch<T> launch;
    OP_REQUIRES_OK(context, launch.Prepare(context));
    tensorflow::Tensor *sums_of_squares, *finite;
    OP_REQUIRES_OK(context, context->allocate_output(0, {launch.size()},
                                                     &sums_of_squares));
    OP_REQUIRES_OK(context,
                   context->allocate_output(1, {launch.size()}, &finite));
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
    for (int i = 0; i < launch.size(); ++i) {
      sums_of_squares->flat<double>()(i) = measures[i].sum_of_squares;
      finite->flat<bool>()(i) = measures[i].finite;
    }
  }
};

#define TF_OPT_REGISTER(T)                                    \
  REGISTER_KERNEL_BUILDER(Name("TfOpt>MeasureGradients")      \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<T>("T"),        \
                          MeasureGradientsOp<T>)
TF_OPT_REGISTER(Eigen::half);
TF_OPT_REGISTER(Eigen::bfloat16);
TF_OPT_REGISTER(float);
TF_OPT_REGISTER(double);
#undef TF_OPT_REGISTER

}  // namespace
}  // namespace tf_opt
