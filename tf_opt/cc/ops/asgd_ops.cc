#include "tf_opt/cc/ops/resource_apply_op.h"
#include "tf_opt/cc/rules/asgd.h"

namespace tf_opt {
namespace {

const bool registered = [] {
  ResourceApplyOp op = ResourceApplyOp::Of(Asgd(), "ASGD");
  op.summary = R"doc(
One step of the stochastic average gradient over a list of variables. Of each
table y, only the row `batch_index` is read and written.)doc";
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
  return RegisterResourceApplyOp(op);
}();

}  // namespace
}  // namespace tf_opt
