#include "tf_opt/cc/ops/resource_apply_op.h"
#include "tf_opt/cc/rules/averaged_sgd.h"

namespace tf_opt {
namespace {

const bool registered = [] {
  ResourceApplyOp op = ResourceApplyOp::Of(AveragedSgd(), "AveragedSGD");
  op.summary = R"doc(
One step of averaged stochastic gradient descent over a list of variables.
`learning_rate_factors` multiply eta as well.)doc";
  op.arguments =
      R"doc(ax: Handles of the averages, float32 (double if T is double) or shorter, one
  for each of `variables`; or one TfOpt>VariableGroup of them.
learning_rate: Scalar; for the decoupled weight decay.
eta: Scalar >= 0, the step size.
step: Scalar, counted from 1: t.
lambd: Scalar >= 0, the decay of the variable by the step size.
t0: Scalar >= 0, the number of steps before averaging begins.
)doc";
  return RegisterResourceApplyOp(op);
}();

}  // namespace
}  // namespace tf_opt
