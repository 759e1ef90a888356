#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/kernels/kernel_device.h"
#if defined(TF_OPT_GPU_DEVICE)
#include "tf_opt/cc/kernels/measure_gpu_kernel.h"
#else
#include "tf_opt/cc/kernels/measure_cpu_kernel.h"
#endif

namespace tf_opt {
namespace {

#if defined(TF_OPT_GPU_DEVICE)
template <typename T>
using MeasureGradientsOp = MeasureGradientsGpuOp<T>;
#else
template <typename T>
using MeasureGradientsOp = MeasureGradientsCpuOp<T>;
#endif

#define TF_OPT_REGISTER(T)                                 \
  REGISTER_KERNEL_BUILDER(Name("TfOpt>MeasureGradients")   \
                              .Device(kKernelDevice)       \
                              .TypeConstraint<T>("T")      \
                              .HostMemory("accumulators"), \
                          MeasureGradientsOp<T>)
TF_OPT_REGISTER(Eigen::half);
TF_OPT_REGISTER(Eigen::bfloat16);
TF_OPT_REGISTER(float);
TF_OPT_REGISTER(double);
#undef TF_OPT_REGISTER

}  // namespace
}  // namespace tf_opt
