// Registers the resource-apply ops inside XLA.
#include "tf_opt/cc/kernels/adam_optimizer.h"
#include "tf_opt/cc/kernels/optimizer.h"
#include "tf_opt/cc/rules/asgd.h"
#include "tf_opt/cc/rules/averaged_sgd.h"
#include "tf_opt/cc/rules/nadam.h"
#include "tf_opt/cc/xla/apply_call.h"

namespace tf_opt {
namespace {

template <typename Optimizer>
bool Register(const std::string& name) {
  return RegisterApplyForXla<Optimizer, false>("TfOpt>ResourceApply" + name) &&
         RegisterApplyForXla<Optimizer, true>("TfOpt>ResourceSparseApply" +
                                              name);
}

[[maybe_unused]] const bool registered =
    Register<AdamOptimizer>("AdamAmsgrad") &&
    Register<OptimizerOf<Asgd>>("ASGD") &&
    Register<OptimizerOf<AveragedSgd>>("AveragedSGD") &&
    Register<OptimizerOf<NAdam>>("NAdam");

}  // namespace
}  // namespace tf_opt
