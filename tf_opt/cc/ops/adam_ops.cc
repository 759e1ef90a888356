#include "tf_opt/cc/ops/resource_apply_op.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {
namespace {

ResourceApplyOp Op() {
  ResourceApplyOp op =
      ResourceApplyOp::Of(Adam(), "TfOpt>ResourceApplyAdamAmsgrad");
  op.attributes = {"epsilon_hat: bool = false"};
  op.rule = R"doc(
One step of Adam or AdamW, with or without AMSGrad, over a list of variables.

For each variable p with gradient g, with t given by `step`:

  g <- -g                                  if maximize
  p <- p - learning_rate * weight_decay * p      if decoupled_weight_decay,
  g <- g + weight_decay * p                      otherwise (L2)
  m <- beta_1 * m + (1 - beta_1) * g
  v <- beta_2 * v + (1 - beta_2) * g^2
  v_max <- max(v_max, v)                   AMSGrad; v_max takes v's place below
  p <- p - learning_rate / (1 - beta_1^t)
           * m / (sqrt(v / (1 - beta_2^t)) + epsilon))doc";
  op.arguments =
      R"doc(m: Handles of the first moments, float32 (double if T is double) or shorter, one
  for each of `variables`; or one TfOpt>VariableGroup of them.
v: Handles of the second moments, stored like m.
v_max: Handles of the running maximum of v, stored like m. Empty: no AMSGrad.
learning_rate: Scalar.
step: Scalar, counted from 1: t.
beta_1: Scalar in [0, 1), the decay of the first moment.
beta_2: Scalar in [0, 1), the decay of the second moment.
epsilon: Scalar >= 0.
epsilon_hat: Add epsilon to sqrt(v) before its bias correction, as Keras and
  TensorFlow do: p <- p - learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t)
  * m / (sqrt(v) + epsilon).
)doc";
  return op;
}

const bool registered = RegisterResourceApplyOp(Op());

}  // namespace
}  // namespace tf_opt
