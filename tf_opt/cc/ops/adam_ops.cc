#include "tf_opt/cc/ops/resource_apply_op.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {
namespace {

const bool registered = [] {
  ResourceApplyOp op = ResourceApplyOp::Of(Adam(), "AdamAmsgrad");
  op.attributes = {"epsilon_hat: bool = false"};
  op.summary = R"doc(
One step of Adam or AdamW, with or without AMSGrad, over a list of variables.)doc";
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
  return RegisterResourceApplyOp(op);
}();

}  // namespace
}  // namespace tf_opt
