// Registers the kernels of a resource-apply op: those of the CPU or those of a
// GPU; see kernel_device.h.
//
// What it needs is an `Optimizer`, constructed from the op's attributes:
//
//   Optimizer::kScalars        the op's scalar inputs, as ScalarInput
//   modes()                    Hyperparameters with what the attributes say
//   frame()                    FrameInputs, likewise
//   Optimizer::kSlotOperands   all slots that the op has
//   slots()                    those of this kernel, in the rule's order
//   ChooseRule<V>(use)         calls use(TypeTag<Rule>()) with its rule
#ifndef TF_OPT_CC_KERNELS_RESOURCE_APPLY_KERNELS_H_
#define TF_OPT_CC_KERNELS_RESOURCE_APPLY_KERNELS_H_

#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/kernels/kernel_device.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/step_frame.h"
#if defined(TF_OPT_GPU_DEVICE)
#include "tf_opt/cc/kernels/resource_apply_gpu.h"
#else
#include "tf_opt/cc/kernels/resource_apply_cpu.h"
#endif

namespace tf_opt {

// An Optimizer of a rule's description, for an op with no other attributes than
// these.
template <typename Description>
class OptimizerOf : public Description {
 public:
  explicit OptimizerOf(tensorflow::OpKernelConstruction* context) {
    for (const Operand& slot : Description::kSlotOperands) {
      int length = 0;
      OP_REQUIRES_OK(
          context, context->GetAttr(absl::StrCat("num_", slot.name), &length));
      if (length > 0) slots_.push_back(slot);
    }
    OP_REQUIRES_OK(context,
                   context->GetAttr("decoupled_weight_decay", &decoupled_));
    OP_REQUIRES_OK(context, context->GetAttr("maximize", &maximize_));
    OP_REQUIRES_OK(context, context->GetAttr("stochastic_rounding",
                                             &frame_.stochastic_rounding));
    OP_REQUIRES_OK(context, context->GetAttr("seed", &frame_.seed));
  }

  typename Description::Hyperparameters modes() const {
    typename Description::Hyperparameters hyperparameters;
    hyperparameters.maximize = maximize_;
    return hyperparameters;
  }

  const FrameInputs& frame() const { return frame_; }

  const std::vector<Operand>& slots() const { return slots_; }

  template <typename V, typename Use>
  void ChooseRule(const Use& use) const {
    Description::template ChooseRule<V>(l2(), use);
  }

 protected:
  bool l2() const { return !decoupled_; }

 private:
  std::vector<Operand> slots_;
  bool decoupled_ = true;
  bool maximize_ = false;
  FrameInputs frame_;
};

// A static object of this type registers the kernels of two ops, for dense
// gradients and for sparse ones, for every variable type.
template <typename Optimizer>
class KernelRegistration {
 public:
  KernelRegistration(const char* op, const char* sparse_op) {
#if defined(TF_OPT_GPU_DEVICE)
    RegisterAll<ResourceApplyGpuOp>(op);
    RegisterAll<ResourceSparseApplyGpuOp>(sparse_op);
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
    builder.Device(kKernelDevice).TypeConstraint<T>("T");
    for (const Operand& operand : kFrameOperands) {
      if (operand.role == Role::kUpdated) builder.HostMemory(operand.name);
    }
    for (const Operand& slot : Optimizer::kSlotOperands) {
      builder.HostMemory(slot.name);
    }
    tensorflow::kernel_factory::OpKernelRegistrar(
        builder.Build(), op,
        [](tensorflow::OpKernelConstruction* context) -> tensorflow::OpKernel* {
          return new Kernel<T, Optimizer>(context);
        });
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_RESOURCE_APPLY_KERNELS_H_
