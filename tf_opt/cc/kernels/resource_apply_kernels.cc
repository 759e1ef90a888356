// The kernels of the resource-apply ops: those of the CPU or those of a GPU;
// see kKernelDevice.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/apply_attributes.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/rule_info.h"

namespace tf_opt {
namespace {

class ResourceApplyOp : public Kernel {
 public:
  explicit ResourceApplyOp(tensorflow::OpKernelConstruction* context)
      : Kernel(context) {
    OP_REQUIRES_OK(context, attributes_.Read(context->def()));
  }

 private:
  absl::Status Run(tensorflow::OpKernelContext* context) override {
#if defined(TF_OPT_GPU_DEVICE)
    return LaunchOnGpu(context, attributes_);
#else
    return LaunchOnCpu(context, attributes_);
#endif
  }

  ApplyAttributes attributes_;
};

void Register(const RuleInfo& rule, OpForm form) {
  std::vector<std::string> host_inputs = {"seed"};
  for (const Operand& operand : kFrameOperands) {
    if (operand.role == Role::kUpdated) host_inputs.push_back(operand.name);
  }
  for (const Operand& operand : rule.operands(form)) {
    host_inputs.push_back(operand.name);
  }
  RegisterKernel<ResourceApplyOp>(rule.op_name(form), kKernelDevice,
                                  host_inputs);
}

[[maybe_unused]] const bool apply_is_registered = [] {
  for (const Optimizer& optimizer : AllOptimizers()) {
    for (const OpForm form : optimizer.rule.forms()) {
#if defined(TF_OPT_GPU_DEVICE)
      // The composed implementation runs for tables on a GPU.
      if (form.sparse || form.row_wise) continue;
#endif
      Register(optimizer.rule, form);
    }
  }
  return true;
}();

}  // namespace
}  // namespace tf_opt
