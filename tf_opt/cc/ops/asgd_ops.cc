#include "tensorflow/core/framework/op.h"
#include "tf_opt/cc/ops/shape_functions.h"

namespace tf_opt {

REGISTER_OP("TfOpt>ResourceApplyASGD")
    .Input("variables: num_variables * resource")
    .Input("d: num_d * resource")
    .Input("y: num_y * resource")
    .Input("gradients: N * T")
    .Input("learning_rate: double")
    .Input("batch_index: int64")
    .Input("seen_batches: int64")
    .Input("weight_decay: double")
    .Attr("N: int >= 1")
    .Attr("num_variables: int >= 1")
    .Attr("num_d: int >= 1")
    .Attr("num_y: int >= 1")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("decoupled_weight_decay: bool = true")
    .Attr("maximize: bool = false")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      return CheckApplyShapes(c, {"d", {"y", /*is_table=*/true}},
                              {"learning_rate", "batch_index", "seen_batches"});
    })
    .Doc(R"doc(
One step of the stochastic average gradient over a list of variables.

For each variable p with gradient g, and y the row `batch_index` of its table:

  g <- -g                                  if maximize
  p <- p - learning_rate * weight_decay * p      if decoupled_weight_decay,
  g <- g + weight_decay * p                      otherwise (L2)
  d <- d - y + g
  y <- g
  p <- p - learning_rate / seen_batches * d

The variables, d and the one row of y are written in place, under all their
locks; a buffer that somebody else still reads is copied first. The other rows
are not touched. If anything is wrong with the arguments nothing is written. The
arithmetic is float32 (float64 if T is double), the step's scalars are double.

On a GPU all inputs but the handles are in its memory, and nothing is read back:
a number out of its range is printed by the device, and nothing is written.

variables: Handles of the variables to update, of type T; or one
  TfOpt>VariableGroup of them.
d: Handles of the sums of the rows of y, float32 (double if T is double), one
  for each of `variables`; or, likewise, one group.
y: Likewise, tables with the last gradient of each batch: the shape of the
  variable behind a dimension of batches.
gradients: One for each of `variables`, of its shape.
learning_rate: Scalar.
batch_index: Scalar in [0, the rows of y): which batch the gradients are of.
seen_batches: Scalar >= 1: how many different batches there have been, this one
  included.
weight_decay: Vector, one element for each of `variables`; 0 is no decay.
decoupled_weight_decay: Decay the variable rather than add to the gradient.
maximize: Ascend instead of descend.
)doc");

}  // namespace tf_opt
