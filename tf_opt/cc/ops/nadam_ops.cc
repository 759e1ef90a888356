#include "tensorflow/core/framework/op.h"
#include "tf_opt/cc/ops/shape_functions.h"

namespace tf_opt {

REGISTER_OP("TfOpt>ResourceApplyNAdam")
    .Input("variables: num_variables * resource")
    .Input("m: num_m * resource")
    .Input("v: num_v * resource")
    .Input("gradients: N * T")
    .Input("learning_rate: double")
    .Input("step: int64")
    .Input("momentum_product: double")
    .Input("beta_1: double")
    .Input("beta_2: double")
    .Input("epsilon: double")
    .Input("momentum_decay: double")
    .Input("weight_decay: double")
    .Attr("N: int >= 1")
    .Attr("num_variables: int >= 1")
    .Attr("num_m: int >= 1")
    .Attr("num_v: int >= 1")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("decoupled_weight_decay: bool = true")
    .Attr("maximize: bool = false")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      return CheckApplyShapes(
          c, {"m", "v"},
          {"learning_rate", "step", "momentum_product", "beta_1", "beta_2",
           "epsilon", "momentum_decay"});
    })
    .Doc(R"doc(
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
           / (sqrt(v / (1 - beta_2^t)) + epsilon)

The variables and slots are written in place, under all their locks; a buffer
that somebody else still reads is copied first. If anything is wrong with the
arguments nothing is written. The arithmetic is float32 (float64 if T is
double), the step's scalars are double.

On a GPU all inputs but the handles are in its memory, and nothing is read back:
a number out of its range is printed by the device, and nothing is written.

variables: Handles of the variables to update, of type T; or one
  TfOpt>VariableGroup of them.
m: Handles of the first moments, float32 (double if T is double), one for each
  of `variables`; or, likewise, one group.
v: Likewise, the second moments.
gradients: One for each of `variables`, of its shape.
learning_rate: Scalar.
step: Scalar, counted from 1: t.
momentum_product: Scalar, the product of mu_1 to mu_{t-1}; 1 in the first step.
beta_1: Scalar in [0, 1), the decay of the first moment.
beta_2: Scalar in [0, 1), the decay of the second moment.
epsilon: Scalar >= 0.
momentum_decay: Scalar >= 0, how fast mu goes from beta_1 / 2 to beta_1.
weight_decay: Vector, one element for each of `variables`; 0 is no decay.
decoupled_weight_decay: Decay the variable rather than add to the gradient.
maximize: Ascend instead of descend.
)doc");

}  // namespace tf_opt
