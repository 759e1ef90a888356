#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/kernels/kernel_device.h"
#if defined(TF_OPT_GPU_DEVICE)
#include "tf_opt/cc/kernels/measure_gpu_kernel.h"
#else
#include "tf_opt/cc/kernels/measure_cpu_kernel.h"
#include "tf_opt/cc/kernels/measure_sparse_cpu_kernel.h"
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

#if !defined(TF_OPT_GPU_DEVICE)
#define TF_OPT_REGISTER_SPARSE(T)                              \
  REGISTER_KERNEL_BUILDER(Name("TfOpt>MeasureSparseGradients") \
                              .Device(kKernelDevice)           \
                              .TypeConstraint<T>("T"),         \
                          MeasureSparseGradientsCpuOp<T>)
TF_OPT_REGISTER_SPARSE(Eigen::half);
TF_OPT_REGISTER_SPARSE(Eigen::bfloat16);
TF_OPT_REGISTER_SPARSE(float);
TF_OPT_REGISTER_SPARSE(double);
#undef TF_OPT_REGISTER_SPARSE
#endif

}  // namespace
}  // namespace tf_opt
