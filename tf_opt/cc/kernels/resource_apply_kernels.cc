// The kernels of the resource-apply ops: those of the CPU or those of a GPU;
// see kKernelDevice.
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/apply_attributes.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/numbers.h"
#include "tf_opt/cc/kernels/optimizers.h"
#include "tf_opt/cc/kernels/resource_apply_launch.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/rule_info.h"
#if defined(TF_OPT_GPU_DEVICE)
#include "tf_opt/cc/kernels/apply_on_gpu.h"
#else
#include "tf_opt/cc/kernels/apply_on_cpu.h"
#endif

namespace tf_opt {
namespace {

class ResourceApplyOp : public Kernel {
 public:
  explicit ResourceApplyOp(tensorflow::OpKernelConstruction* context)
      : Kernel(context) {
    OP_REQUIRES_OK(context, attributes_.Read(context->def()));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
  }

 private:
  absl::Status Run(tensorflow::OpKernelContext* context) override {
    ResourceApplyLaunch launch(attributes_.slots, count_);
#if defined(TF_OPT_GPU_DEVICE)
    return ApplyOnGpu(context, attributes_, &launch);
#else
    OpNumbers source(context);
    StepNumbers numbers;
    TF_RETURN_IF_ERROR(numbers.Read(attributes_, source, &launch));
    if (!numbers.frame.enabled) return absl::OkStatus();
    TF_RETURN_IF_ERROR(
        launch.Prepare(context, attributes_.slices, numbers.frame.update,
                       [](void* to, const void* from, std::size_t bytes) {
                         std::memcpy(to, from, bytes);
                         return absl::OkStatus();
                       }));
    return ApplyOnCpu(attributes_, numbers, launch, ThreadsOf(context));
#endif
  }

  ApplyAttributes attributes_;
  int count_ = 0;
};

void Register(const RuleInfo& rule, bool sparse) {
  std::vector<std::string> host_inputs = {"seed"};
  for (const Operand& operand : kFrameOperands) {
    if (operand.role == Role::kUpdated) host_inputs.push_back(operand.name);
  }
  for (const Operand& operand : rule.operands(sparse)) {
    host_inputs.push_back(operand.name);
  }
  RegisterKernel<ResourceApplyOp>(OpName(rule.op, sparse), kKernelDevice,
                                  host_inputs);
}

[[maybe_unused]] const bool registered = [] {
  for (const Optimizer& optimizer : AllOptimizers()) {
    Register(optimizer.rule, /*sparse=*/false);
#if !defined(TF_OPT_GPU_DEVICE)
    // On a GPU the composed implementation applies sparse gradients.
    Register(optimizer.rule, /*sparse=*/true);
#endif
  }
  return true;
}();

}  // namespace
}  // namespace tf_opt
