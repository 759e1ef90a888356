// What XLA finds of our ops: the reason why it can't compile them. A step that
// is traced where XLA compiles holds none; but a function that was traced
// elsewhere first is not traced again when a compiled one calls it.
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

struct NotForXlaRegistration {
  NotForXlaRegistration() {
    for (const char* op :
         {"TfOpt>MeasureGradients", "TfOpt>MeasureSparseGradients",
          "TfOpt>ResourceApplyAdamAmsgrad", "TfOpt>ResourceApplyASGD",
          "TfOpt>ResourceApplyAveragedSGD", "TfOpt>ResourceApplyNAdam",
          "TfOpt>ResourceSparseApplyAdamAmsgrad",
          "TfOpt>ResourceSparseApplyASGD",
          "TfOpt>ResourceSparseApplyAveragedSGD",
          "TfOpt>ResourceSparseApplyNAdam"}) {
      for (const char* device : {"XLA_CPU_JIT", "XLA_GPU_JIT"}) {
        tensorflow::kernel_factory::OpKernelRegistrar(
            tensorflow::KernelDefBuilder(op).Device(device).Build(), op,
            [](tensorflow::OpKernelConstruction* context)
                -> tensorflow::OpKernel* { return new NotForXlaOp(context); });
      }
    }
  }
};

const NotForXlaRegistration registration;

}  // namespace
}  // namespace tf_opt
