#include "tf_opt/cc/ops/resource_apply_op.h"
#include "tf_opt/cc/rules/asgd.h"

namespace tf_opt {
namespace {

ResourceApplyOp Op() {
  ResourceApplyOp op = ResourceApplyOp::Of(Asgd(), "TfOpt>ResourceApplyASGD");
  op.rule = R"doc(
One step of the stochastic average gradient over a list of variables.

For each variable p with gradient g, and y the row `batch_index` of its table:

  g <- -g                                  if maximize
  p <- p - learning_rate * weight_decay * p      if decoupled_weight_decay,
  g <- g + weight_decay * p                      otherwise (L2)
  d <- d - y + g
  y <- g
  p <- p - learning_rate / seen_batches * d

The other rows of y are not touched.)doc";
  op.arguments =
      R"doc(d: Handles of the sums of the rows of y, float32 (double if T is double), one
  for each of `variables`; or one TfOpt>VariableGroup of them.
y: Handles of tables with the last gradient of each batch: the shape of the
  variable behind a dimension of batches. All may be stored shorter; then
  the gradient is rounded to that, to nearest, before it becomes part of d.
learning_rate: Scalar.
batch_index: Scalar in [0, the rows of y): the batch of the gradients.
seen_batches: Scalar >= 1: the number of different batches so far, this one
  included.
)doc";
  return op;
}

const bool registered = RegisterResourceApplyOp(Op());

}  // namespace
}  // namespace tf_opt
