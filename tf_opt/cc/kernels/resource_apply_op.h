// What the kernels of all resource-apply ops share.
#ifndef TF_OPT_CC_KERNELS_RESOURCE_APPLY_OP_H_
#define TF_OPT_CC_KERNELS_RESOURCE_APPLY_OP_H_

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/kernels/dense_launch.h"

namespace tf_opt {

// T is TensorFlow's type of the variables.
template <typename T>
class ResourceApplyOp : public tensorflow::OpKernel {
 public:
  explicit ResourceApplyOp(tensorflow::OpKernelConstruction* context)
      : OpKernel(context) {
    OP_REQUIRES_OK(context,
                   context->GetAttr("decoupled_weight_decay", &decoupled_));
    OP_REQUIRES_OK(context, context->GetAttr("maximize", &maximize_));
  }

 protected:
  // The type of the slots and of the arithmetic.
  using V = typename DenseLaunch<T>::Slot;

  bool decoupled_;
  bool maximize_;
};

// Registers OpClass<T> for every variable type that the CPU engine has.
#define TF_OPT_REGISTER_CPU_KERNEL(op, OpClass, T)                    \
  REGISTER_KERNEL_BUILDER(                                            \
      Name(op).Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
      OpClass<T>)
#define TF_OPT_REGISTER_CPU_KERNELS(op, OpClass)            \
  TF_OPT_REGISTER_CPU_KERNEL(op, OpClass, Eigen::half);     \
  TF_OPT_REGISTER_CPU_KERNEL(op, OpClass, Eigen::bfloat16); \
  TF_OPT_REGISTER_CPU_KERNEL(op, OpClass, float);           \
  TF_OPT_REGISTER_CPU_KERNEL(op, OpClass, double)

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_RESOURCE_APPLY_OP_H_
