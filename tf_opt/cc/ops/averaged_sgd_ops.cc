#include "tensorflow/core/framework/op.h"
#include "tf_opt/cc/ops/shape_functions.h"

namespace tf_opt {

REGISTER_OP("TfOpt>ResourceApplyAveragedSGD")
    .Input("variables: num_variables * resource")
    .Input("ax: num_ax * resource")
    .Input("gradients: N * T")
    .Input("learning_rate: double")
    .Input("eta: double")
    .Input("step: int64")
    .Input("lambd: double")
    .Input("t0: double")
    .Input("weight_decay: double")
    .Attr("N: int >= 1")
    .Attr("num_variables: int >= 1")
    .Attr("num_ax: int >= 1")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("decoupled_weight_decay: bool = true")
    .Attr("maximize: bool = false")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      return CheckApplyShapes(c, {"ax"},
                              {"learning_rate", "eta", "step", "lambd", "t0"});
    })
    .Doc(R"doc(
One step of averaged stochastic gradient descent over a list of variables.

For each variable p with gradient g, all at the time t that `step` gives, with
mu = 1 / max(1, t - 1 - t0):

  g <- -g                                  if maximize
  p <- p - learning_rate * weight_decay * p      if decoupled_weight_decay,
  g <- g + weight_decay * p                      otherwise (L2)
  p <- p * (1 - lambd * eta) - eta * g
  ax <- p                                  while mu is 1, else
  ax <- ax + mu * (p - ax)

The variables and averages are written in place, under all their locks; a buffer
that somebody else still reads is copied first. If anything is wrong with the
arguments nothing is written. The arithmetic is float32 (float64 if T is
double), the step's scalars are double.

On a GPU all inputs but the handles are in its memory, and nothing is read back:
a number out of its range is printed by the device, and nothing is written.

variables: Handles of the variables to update, of type T; or one
  TfOpt>VariableGroup of them.
ax: Handles of the averages, float32 (double if T is double), one for each of
  `variables`; or, likewise, one group.
gradients: One for each of `variables`, of its shape.
learning_rate: Scalar; for the decoupled weight decay.
eta: Scalar >= 0, the step size.
step: Scalar, counted from 1: t.
lambd: Scalar >= 0, how strongly the variable decays with the step size.
t0: Scalar >= 0, after how many steps the averaging begins.
weight_decay: Vector, one element for each of `variables`; 0 is no decay.
decoupled_weight_decay: Decay the variable rather than add to the gradient.
maximize: Ascend instead of descend.
)doc");

}  // namespace tf_opt
