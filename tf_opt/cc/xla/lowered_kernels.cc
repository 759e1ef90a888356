// Registers what the dense ops are in programs that XLA compiles for GPUs. (On
// a CPU a call of the engine is faster: apply_xla_op.h. A TPU's programs are
// compiled by its host, which may be another process, without this library.)
#include <string>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/adam_optimizer.h"
#include "tf_opt/cc/kernels/not_for_xla.h"
#include "tf_opt/cc/kernels/optimizer.h"
#include "tf_opt/cc/rules/asgd.h"
#include "tf_opt/cc/rules/averaged_sgd.h"
#include "tf_opt/cc/rules/nadam.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "tf_opt/cc/xla/lowered_apply_op.h"
#include "tf_opt/cc/xla/lowered_measure_op.h"

namespace tf_opt {
namespace {

// What XLA compiles for; a build for tests without GPUs says another.
#if !defined(TF_OPT_LOWERED_FOR)
#define TF_OPT_LOWERED_FOR kXlaGpuDevice
#endif

template <typename Kernel>
void Register(const std::string& op) {
  RegisterXlaKernel(
      op, TF_OPT_LOWERED_FOR,
      [](tensorflow::OpKernelConstruction* context) -> tensorflow::OpKernel* {
        return new Kernel(context);
      });
}

struct LoweredRegistration {
  LoweredRegistration() {
    Register<LoweredApplyOp<AdamOptimizer>>("TfOpt>ResourceApplyAdamAmsgrad");
    Register<LoweredApplyOp<OptimizerOf<Asgd>>>("TfOpt>ResourceApplyASGD");
    Register<LoweredApplyOp<OptimizerOf<AveragedSgd>>>(
        "TfOpt>ResourceApplyAveragedSGD");
    Register<LoweredApplyOp<OptimizerOf<NAdam>>>("TfOpt>ResourceApplyNAdam");
    Register<LoweredMeasureOp>("TfOpt>MeasureGradients");
    RegisterNotForXla(TF_OPT_LOWERED_FOR, /*sparse=*/true);
  }
};

const LoweredRegistration registration;

}  // namespace
}  // namespace tf_opt
