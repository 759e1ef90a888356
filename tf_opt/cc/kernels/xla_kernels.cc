// What XLA finds of those of our ops that have no kernel for it: the reason why
// it can't compile them. A step that
// is traced where XLA compiles holds none; but a function that was traced
// elsewhere first is not traced again when a compiled one calls it.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"

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

void Register(const std::string& op, const char* device) {
  tensorflow::kernel_factory::OpKernelRegistrar(
      tensorflow::KernelDefBuilder(op.c_str()).Device(device).Build(), op,
      [](tensorflow::OpKernelConstruction* context) -> tensorflow::OpKernel* {
        return new NotForXlaOp(context);
      });
}

struct NotForXlaRegistration {
  NotForXlaRegistration() {
    for (const char* device : {"XLA_CPU_JIT", "XLA_GPU_JIT"}) {
      Register("TfOpt>MeasureSparseGradients", device);
#if !defined(TF_OPT_XLA_KERNELS)
      Register("TfOpt>MeasureGradients", device);
#endif
      for (const char* optimizer :
           {"AdamAmsgrad", "ASGD", "AveragedSGD", "NAdam"}) {
        Register(absl::StrCat("TfOpt>ResourceSparseApply", optimizer), device);
#if !defined(TF_OPT_XLA_KERNELS)
        Register(absl::StrCat("TfOpt>ResourceApply", optimizer), device);
#endif
      }
    }
  }
};

const NotForXlaRegistration registration;

}  // namespace
}  // namespace tf_opt
