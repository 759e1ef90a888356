// Kernels that explain why XLA can't compile an op: on GPUs, and on CPUs in a
// build without XLA's kernels. A step that is traced inside a compiled function
// contains no such op, but a function that was traced before is not traced
// again when a compiled function calls it.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/optimizers.h"
#include "tf_opt/cc/ops/operand_checks.h"

namespace tf_opt {
namespace {

class NotForXlaOp : public tensorflow::OpKernel {
 public:
  explicit NotForXlaOp(tensorflow::OpKernelConstruction* context)
      : OpKernel(context) {
    context->CtxFailure(absl::UnimplementedError(absl::StrCat(
        context->def().op(),
        " can't be compiled by XLA: this optimizer step was traced in a "
        "tf.function without jit_compile=True and is now called inside one "
        "with it. Give the optimizer implementation=\"composed\", or the inner "
        "tf.function jit_compile=True as well")));
  }

  void Compute(tensorflow::OpKernelContext*) override {}
};

// Registers it for all ops.
void RegisterNotForXla(const char* device) {
  const auto register_one = [device](const std::string& op) {
    tensorflow::kernel_factory::OpKernelRegistrar(
        tensorflow::KernelDefBuilder(op.c_str()).Device(device).Build(), op,
        [](tensorflow::OpKernelConstruction* context) -> tensorflow::OpKernel* {
          return new NotForXlaOp(context);
        });
  };
  for (const Optimizer& optimizer : AllOptimizers()) {
    register_one(OpName(optimizer.rule.op, /*sparse=*/false));
    register_one(OpName(optimizer.rule.op, /*sparse=*/true));
  }
  register_one("TfOpt>MeasureGradients");
  register_one("TfOpt>MeasureSparseGradients");
}

[[maybe_unused]] const bool registered = [] {
#if !defined(TF_OPT_XLA_KERNELS)
  RegisterNotForXla("XLA_CPU_JIT");
#endif
  RegisterNotForXla("XLA_GPU_JIT");
  return true;
}();

}  // namespace
}  // namespace tf_opt
