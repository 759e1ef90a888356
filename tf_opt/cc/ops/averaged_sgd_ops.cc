#include "tf_opt/cc/ops/resource_apply_op.h"
#include "tf_opt/cc/rules/averaged_sgd.h"

namespace tf_opt {
namespace {

ResourceApplyOp Op() {
  ResourceApplyOp op =
      ResourceApplyOp::Of(AveragedSgd(), "TfOpt>ResourceApplyAveragedSGD");
  op.rule = R"doc(
One step of averaged stochastic gradient descent over a list of variables.

For each variable p with gradient g, all at the time t that `step` gives, with
mu = 1 / max(1, t - 1 - t0):

  g <- -g                                  if maximize
  p <- p - learning_rate * weight_decay * p      if decoupled_weight_decay,
  g <- g + weight_decay * p                      otherwise (L2)
  p <- p * (1 - lambd * eta) - eta * g
  ax <- p                                  while mu is 1, else
  ax <- ax + mu * (p - ax)

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
  return op;
}

const bool registered = RegisterResourceApplyOp(Op());

}  // namespace
}  // namespace tf_opt
