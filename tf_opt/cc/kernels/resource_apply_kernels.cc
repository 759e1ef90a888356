// The kernels of the resource-apply ops: those of the CPU or those of a GPU;
// see kKernelDevice.
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/numbers.h"
#include "tf_opt/cc/kernels/optimizers.h"
#include "tf_opt/cc/kernels/resource_apply_launch.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/rules/operand.h"
#if defined(TF_OPT_GPU_DEVICE)
#include "tf_opt/cc/kernels/apply_on_gpu.h"
#else
#include "tf_opt/cc/kernels/apply_on_cpu.h"
#endif

namespace tf_opt {
namespace {

template <typename Optimizer>
class ResourceApplyOp : public Kernel {
 public:
  explicit ResourceApplyOp(tensorflow::OpKernelConstruction* context)
      : Kernel(context) {
    OP_REQUIRES_OK(context, optimizer_.Read(context->def()));
    OP_REQUIRES_OK(context, attributes_.Read(context->def()));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
  }

 private:
  absl::Status Run(tensorflow::OpKernelContext* context) override {
    ResourceApplyLaunch launch(optimizer_.slots, count_);
#if defined(TF_OPT_GPU_DEVICE)
    return ApplyOnGpu(context, optimizer_, &launch);
#else
    StepNumbers<Optimizer> numbers(optimizer_);
    const OpNumbers source(context);
    TF_RETURN_IF_ERROR(numbers.Read(source, &launch));
    if (!numbers.frame.enabled) return absl::OkStatus();
    TF_RETURN_IF_ERROR(
        launch.Prepare(context, attributes_, numbers.frame.update,
                       [](void* to, const void* from, std::size_t bytes) {
                         std::memcpy(to, from, bytes);
                         return absl::OkStatus();
                       }));
    return ApplyOnCpu(optimizer_, numbers, launch, attributes_,
                      ThreadsOf(context));
#endif
  }

  Optimizer optimizer_;
  SliceAttributes attributes_;
  int count_ = 0;
};

template <typename Optimizer>
void Register(const std::string& op) {
  std::vector<std::string> host_inputs = {"seed"};
  for (const Operand& operand : kFrameOperands) {
    if (operand.role == Role::kUpdated) host_inputs.push_back(operand.name);
  }
  for (const Operand& slot : Optimizer::kSlotOperands) {
    host_inputs.push_back(slot.name);
  }
  RegisterKernel(
      op, kKernelDevice, host_inputs,
      [](tensorflow::OpKernelConstruction* context) -> tensorflow::OpKernel* {
        return new ResourceApplyOp<Optimizer>(context);
      });
}

[[maybe_unused]] const bool registered = [] {
  ForEachApplyOp([](auto optimizer, const std::string& op, bool sparse) {
#if defined(TF_OPT_GPU_DEVICE)
    // On a GPU the composed implementation applies sparse gradients.
    if (sparse) return;
#endif
    Register<typename decltype(optimizer)::type>(op);
  });
  return true;
}();

}  // namespace
}  // namespace tf_opt
