#include "tf_opt/cc/ops/resource_apply_op.h"
#include "tf_opt/cc/rules/nadam.h"

namespace tf_opt {
namespace {

ResourceApplyOp Op() {
  ResourceApplyOp op = ResourceApplyOp::Of(NAdam(), "TfOpt>ResourceApplyNAdam");
  op.rule = R"doc(
One step of NAdam over a list of variables.

For each variable p with gradient g, all at the time t that `step` gives, with
mu_t = beta_1 * (1 - 0.96^(t * momentum_decay) / 2) and P the product of mu_1
to mu_t (`momentum_product`, which ends at t - 1, times mu_t):

  g <- -g                                  if maximize
  p <- p - learning_rate * weight_decay * p      if decoupled_weight_decay,
  g <- g + weight_decay * p                      otherwise (L2)
  m <- beta_1 * m + (1 - beta_1) * g
  v <- beta_2 * v + (1 - beta_2) * g^2
  p <- p - learning_rate * (mu_{t+1} * m / (1 - P * mu_{t+1})
                            + (1 - mu_t) * g / (1 - P))
           / (sqrt(v / (1 - beta_2^t)) + epsilon))doc";
  op.arguments =
      R"doc(m: Handles of the first moments, float32 (double if T is double) or shorter, one
  for each of `variables`; or one TfOpt>VariableGroup of them.
v: Handles of the second moments, stored like m.
learning_rate: Scalar.
step: Scalar, counted from 1: t.
momentum_product: Scalar, the product of mu_1 to mu_{t-1}; 1 in the first step.
beta_1: Scalar in [0, 1), the decay of the first moment.
beta_2: Scalar in [0, 1), the decay of the second moment.
epsilon: Scalar >= 0.
momentum_decay: Scalar >= 0, how fast mu goes from beta_1 / 2 to beta_1.
)doc";
  return op;
}

const bool registered = RegisterResourceApplyOp(Op());

}  // namespace
}  // namespace tf_opt
