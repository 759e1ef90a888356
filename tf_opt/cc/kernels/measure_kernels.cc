#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/kernels/kernel_device.h"
#if defined(TF_OPT_GPU_DEVICE)
#include "tf_opt/cc/kernels/measure_gpu_kernel.h"
#include "tf_opt/cc/kernels/measure_sparse_gpu_kernel.h"
#else
#include "tf_opt/cc/kernels/measure_cpu_kernel.h"
#include "tf_opt/cc/kernels/measure_sparse_cpu_kernel.h"
#if defined(TF_OPT_XLA_KERNELS)
#include "tf_opt/cc/xla/measure_call.h"
#endif
#endif

namespace tf_opt {
namespace {

#if defined(TF_OPT_GPU_DEVICE)
template <typename T>
using DenseKernel = MeasureGradientsGpuOp<T>;
template <typename T>
using SparseKernel = MeasureSparseGradientsGpuOp<T>;
#else
template <typename T>
using DenseKernel = MeasureGradientsCpuOp<T>;
template <typename T>
using SparseKernel = MeasureSparseGradientsCpuOp<T>;
#endif

#define TF_OPT_REGISTER_BOTH(T)                                \
  REGISTER_KERNEL_BUILDER(Name("TfOpt>MeasureGradients")       \
                              .Device(kKernelDevice)           \
                              .TypeConstraint<T>("T")          \
                              .HostMemory("accumulators"),     \
                          DenseKernel<T>);                     \
  REGISTER_KERNEL_BUILDER(Name("TfOpt>MeasureSparseGradients") \
                              .Device(kKernelDevice)           \
                              .TypeConstraint<T>("T")          \
                              .HostMemory("accumulators")      \
                              .HostMemory("rows"),             \
                          SparseKernel<T>)
TF_OPT_REGISTER_BOTH(Eigen::half);
TF_OPT_REGISTER_BOTH(Eigen::bfloat16);
TF_OPT_REGISTER_BOTH(float);
TF_OPT_REGISTER_BOTH(double);
#undef TF_OPT_REGISTER_BOTH
#if defined(TF_OPT_XLA_KERNELS) && !defined(TF_OPT_GPU_DEVICE)
[[maybe_unused]] const bool registered_for_xla = RegisterMeasureForXla(
    "TfOpt>MeasureGradients", "TfOpt>MeasureSparseGradients");
#endif

}  // namespace
}  // namespace tf_opt
