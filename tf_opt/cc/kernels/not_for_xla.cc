// Kernels that explain why XLA can't compile an op. An optimizer's step that is
// traced inside a compiled function contains no such op, but a function that
// was traced before is not traced again when a compiled function calls it.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/kernel.h"

namespace tf_opt {
namespace {

class NotForXlaOp : public tensorflow::OpKernel {
 public:
  explicit NotForXlaOp(tensorflow::OpKernelConstruction* context)
      : OpKernel(context) {
    context->CtxFailure(absl::UnimplementedError(absl::StrCat(
        context->def().op(),
        " can't be compiled by XLA. If this is an optimizer's step, it was "
        "traced in a tf.function without jit_compile=True and is now called "
        "inside one with it: give the optimizer implementation=\"composed\", "
        "or the inner tf.function jit_compile=True as well. In place of "
        "tf_opt.ops, call tf_opt.functional")));
  }

  void Compute(tensorflow::OpKernelContext*) override {}
};

void Register(const std::string& op) {
  for (const char* device : {"XLA_CPU_JIT", "XLA_GPU_JIT"}) {
    RegisterKernel<NotForXlaOp>(op, device, {});
  }
}

[[maybe_unused]] const bool registered = [] {
  for (const Optimizer& optimizer : AllOptimizers()) {
    for (const OpForm form : optimizer.rule.forms()) {
      Register(absl::StrCat(form.prefix(), optimizer.rule.op));
    }
  }
  Register("TfOpt>MeasureGradients");
  Register("TfOpt>MergeSlices");
  return true;
}();

}  // namespace
}  // namespace tf_opt
