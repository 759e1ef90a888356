// Registers what the ops are in programs that XLA compiles for GPUs. (On
// a CPU a call of the engine is faster: apply_xla_op.h. A TPU's programs are
// compiled by its host, which may be another process, without this library.)
#include <string>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/adam_optimizer.h"
#include "tf_opt/cc/kernels/optimizer.h"
#include "tf_opt/cc/rules/asgd.h"
#include "tf_opt/cc/rules/averaged_sgd.h"
#include "tf_opt/cc/rules/nadam.h"
#include "tf_opt/cc/xla/lowered_apply_op.h"
#include "tf_opt/cc/xla/lowered_measure_op.h"
#include "tf_opt/cc/xla/registration.h"

namespace tf_opt {
namespace {

// What XLA compiles for; a build for tests without GPUs says another.
#if !defined(TF_OPT_LOWERED_FOR)
#define TF_OPT_LOWERED_FOR kXlaGpuDevice
#endif

// Both of an op's names: with dense gradients and with sparse ones.
template <typename Kernel>
void Register(const std::string& dense, const std::string& sparse) {
  for (const bool is_sparse : {false, true}) {
    RegisterXlaKernel(is_sparse ? sparse : dense, TF_OPT_LOWERED_FOR,
                      [is_sparse](tensorflow::OpKernelConstruction* context)
                          -> tensorflow::OpKernel* {
                        return new Kernel(context, is_sparse);
                      });
  }
}

template <typename Optimizer>
void RegisterApply(const std::string& name) {
  Register<LoweredApplyOp<Optimizer>>(
      absl::StrCat("TfOpt>ResourceApply", name),
      absl::StrCat("TfOpt>ResourceSparseApply", name));
}

struct LoweredRegistration {
  LoweredRegistration() {
    RegisterApply<AdamOptimizer>("AdamAmsgrad");
    RegisterApply<OptimizerOf<Asgd>>("ASGD");
    RegisterApply<OptimizerOf<AveragedSgd>>("AveragedSGD");
    RegisterApply<OptimizerOf<NAdam>>("NAdam");
    Register<LoweredMeasureOp>("TfOpt>MeasureGradients",
                               "TfOpt>MeasureSparseGradients");
  }
};

const LoweredRegistration registration;

}  // namespace
}  // namespace tf_opt
