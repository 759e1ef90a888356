#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/kernels/exceptions.h"
#include "tf_opt/cc/kernels/kernel_device.h"
#if defined(TF_OPT_GPU_DEVICE)
#include "tf_opt/cc/kernels/measure_gpu_kernel.h"
#else
#include "tf_opt/cc/kernels/measure_cpu_kernel.h"
#include "tf_opt/cc/kernels/measure_sparse_cpu_kernel.h"
#endif

namespace tf_opt {
namespace {

#define TF_OPT_REGISTER(op, Kernel, T)                     \
  REGISTER_KERNEL_BUILDER(Name(op)                         \
                              .Device(kKernelDevice)       \
                              .TypeConstraint<T>("T")      \
                              .HostMemory("accumulators"), \
                          Guarded<Kernel<T>>)
#if defined(TF_OPT_GPU_DEVICE)
// On a GPU sparse gradients are measured by the composed implementation.
#define TF_OPT_REGISTER_TYPE(T) \
  TF_OPT_REGISTER("TfOpt>MeasureGradients", MeasureGradientsGpuOp, T)
#else
#define TF_OPT_REGISTER_TYPE(T)                                                \
  TF_OPT_REGISTER("TfOpt>MeasureGradients", MeasureGradientsCpuOp, T);         \
  TF_OPT_REGISTER("TfOpt>MeasureSparseGradients", MeasureSparseGradientsCpuOp, \
                  T)
#endif
TF_OPT_REGISTER_TYPE(Eigen::half);
TF_OPT_REGISTER_TYPE(Eigen::bfloat16);
TF_OPT_REGISTER_TYPE(float);
TF_OPT_REGISTER_TYPE(double);
#undef TF_OPT_REGISTER_TYPE
#undef TF_OPT_REGISTER

}  // namespace
}  // namespace tf_opt
