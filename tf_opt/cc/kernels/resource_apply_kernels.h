// Registers the kernels of a resource-apply op: those of the CPU or those of a
// GPU; see kernel_device.h.
#ifndef TF_OPT_CC_KERNELS_RESOURCE_APPLY_KERNELS_H_
#define TF_OPT_CC_KERNELS_RESOURCE_APPLY_KERNELS_H_

#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/kernels/exceptions.h"
#include "tf_opt/cc/kernels/kernel_device.h"
#include "tf_opt/cc/kernels/optimizer.h"
#include "tf_opt/cc/rules/operand.h"
#if defined(TF_OPT_GPU_DEVICE)
#include "tf_opt/cc/kernels/resource_apply_gpu.h"
#else
#include "tf_opt/cc/kernels/resource_apply_cpu.h"
#endif

namespace tf_opt {

// A static object of this type registers the kernels of two ops, for dense
// gradients and for sparse ones, for every variable type. (Sparse gradients
// have no kernel for GPUs: the composed implementation applies them there.)
template <typename Optimizer>
class KernelRegistration {
 public:
  KernelRegistration(const char* op, const char* sparse_op) {
#if defined(TF_OPT_GPU_DEVICE)
    RegisterAll<ResourceApplyGpuOp>(op);
#else
    RegisterAll<ResourceApplyCpuOp>(op);
    RegisterAll<ResourceSparseApplyCpuOp>(sparse_op);
#endif
  }

 private:
  template <template <typename, typename> class Kernel>
  static void RegisterAll(const char* op) {
    Register<Eigen::half, Kernel>(op);
    Register<Eigen::bfloat16, Kernel>(op);
    Register<float, Kernel>(op);
    Register<double, Kernel>(op);
  }

  template <typename T, template <typename, typename> class Kernel>
  static void Register(const char* op) {
    tensorflow::KernelDefBuilder builder(op);
    builder.Device(kKernelDevice).TypeConstraint<T>("T").HostMemory("seed");
    for (const Operand& operand : kFrameOperands) {
      if (operand.role == Role::kUpdated) builder.HostMemory(operand.name);
    }
    for (const Operand& slot : Optimizer::kSlotOperands) {
      builder.HostMemory(slot.name);
    }
    tensorflow::kernel_factory::OpKernelRegistrar(
        builder.Build(), op,
        [](tensorflow::OpKernelConstruction* context) -> tensorflow::OpKernel* {
          return new Guarded<Kernel<T, Optimizer>>(context);
        });
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_RESOURCE_APPLY_KERNELS_H_
