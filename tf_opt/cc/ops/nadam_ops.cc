#include "tf_opt/cc/ops/resource_apply_op.h"
#include "tf_opt/cc/rules/nadam.h"

namespace tf_opt {
namespace {

const bool registered = [] {
  ResourceApplyOp op = ResourceApplyOp::Of(NAdam(), "NAdam");
  op.summary = R"doc(
One step of NAdam over a list of variables, with the momentum
mu_t = beta_1 * (1 - 0.96^(t * momentum_decay) / 2).)doc";
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
  return RegisterResourceApplyOp(op);
}();

}  // namespace
}  // namespace tf_opt
