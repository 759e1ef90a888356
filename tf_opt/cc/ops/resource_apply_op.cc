#include "tf_opt/cc/ops/resource_apply_op.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def_builder.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf_opt/cc/ops/shape_functions.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace {

constexpr char kCommonDoc[] = R"doc(

Around the rule, for each variable with its gradient g, and where there are any
its accumulator a and its average e:

  g <- gradient_scale * g
  g <- g + a;  a <- 0
  g <- gradient_factor * g
  g <- min(max(g, -clip_value), clip_value)
  the rule
  e <- ema_momentum * e + (1 - ema_momentum) * p
  p <- e                                   if overwrite_with_average

Where `update` is false a step only accumulates, a <- a + gradient_scale * g, and
averages; where `enabled` is false nothing is read or written.

The variables and slots are written in place, under all their locks; a buffer
that somebody else still reads is copied first. If anything is wrong with the
arguments nothing is written. The arithmetic is float32 (float64 if T is
double), the step's scalars are double.

Slots and averages may be stored shorter than that: in bfloat16, or in float32
if T is double. In bfloat16 they are rounded at random, such that the mean is
right, but for a running maximum and what is no sum of small steps, which are
rounded to nearest. The random bits are a function of `seed`, `iteration`,
`variable_numbers` and the element.

Where there are master weights they are p, and the variables, in 16 bits, their
copies, rounded to nearest. One that doesn't round to its variable, which
somebody else has set then, becomes the variable before anything else is done.

On a GPU all inputs but the handles and the seed are in its memory, and nothing is read back:
a number out of its range, or a row that isn't there, is printed by the device,
and nothing is written.

variables: Handles of the variables to update, of type T; or one
  TfOpt>VariableGroup of them.
accumulators: Handles of sums of gradients, float32 (double if T is double), one
  for each of `variables`; or, likewise, one group. Empty: nothing is
  accumulated.
averages: Likewise, the variables' moving averages; or in bfloat16. Empty: none
  are kept.
master_weights: Handles of the variables in float32, if T is half or bfloat16;
  one for each of `variables`, or one group. Empty: there are none.
weight_decay: Scalar, or a vector with one element for each of `variables`; 0 is
  no decay.
learning_rate_factors: Likewise, what the learning rate is multiplied by.
gradient_factors: Likewise, what the gradient is multiplied by.
variable_numbers: Likewise, which of all variables of an optimizer it is, for
  its random bits: integers in [-2^53, 2^53].
gradient_scale: Scalar, what the gradient is multiplied by before it is added to
  what was accumulated.
clip_value: Scalar >= 0; infinity is no clipping.
ema_momentum: Scalar in [0, 1], how much of an average stays.
overwrite_with_average: Scalar, whether the variables become their averages.
enabled: Scalar, whether there is a step at all.
update: Scalar, whether it updates or only accumulates.
iteration: Scalar, how many steps there were, for the random bits.
seed: Scalar in the host's memory, what the random bits are made of.
stochastic_rounding: Whether variables in 16 bits that have no master weights
  are rounded at random too.
decoupled_weight_decay: Decay the variable rather than add to the gradient (L2).
maximize: Ascend instead of descend.
)doc";

constexpr char kDenseDoc[] = R"doc(
gradients: One for each of `variables`, of its shape.
)doc";

constexpr char kSparseDoc[] = R"doc(
gradients: For each of `variables`, which are tables of rows, some rows of its
  gradient: any number of rows of its shape.
indices: For each of `gradients`, a vector that says which row of the table each
  of its rows is, as in tf.IndexedSlices. The rows of `gradients` that are of
  the same row are summed, in their order, in the type of the arithmetic, and
  rounded to T.
accumulated_rows: Rows of each table, with repetitions, that were accumulated:
  they are treated as if they occurred, with a gradient of zero. Or empty.
lazy: False: all rows are updated, those that do not occur with a gradient of
  zero. True: the rows that do not occur are neither read nor written.
tables: What an error calls the variables; or empty.
)doc";

std::string SparseName(const std::string& name) {
  return absl::StrReplaceAll(name, {{"ResourceApply", "ResourceSparseApply"}});
}

void AddOperand(const Operand& operand, tensorflow::OpDefBuilder* builder) {
  if (operand.role == Role::kRead) {
    builder->Input(absl::StrCat(operand.name, ": N * T")).Attr("N: int >= 1");
    return;
  }
  const std::string length = absl::StrCat("num_", operand.name);
  builder->Input(absl::StrCat(operand.name, ": ", length, " * resource"));
  builder->Attr(
      absl::StrCat(length, ": int >= ", operand.optional ? "0" : "1"));
}

void AddSliceInputs(tensorflow::OpDefBuilder* builder) {
  builder->Input("indices: N * Tindices")
      .Input("accumulated_rows: num_accumulated_rows * Tindices")
      .Attr("Tindices: {int32, int64}")
      .Attr("num_accumulated_rows: int >= 0")
      .Attr("lazy: bool = false")
      .Attr("tables: list(string) = []");
}

void Register(const ResourceApplyOp& op, bool sparse) {
  tensorflow::OpRegistry::Global()->Register(
      [op, sparse](tensorflow::OpRegistrationData* data) -> absl::Status {
        tensorflow::OpDefBuilder builder(sparse ? SparseName(op.name)
                                                : op.name);
        for (const Operand& operand : InputOrder(op.slots)) {
          AddOperand(operand, &builder);
        }
        if (sparse) AddSliceInputs(&builder);
        std::vector<std::string> scalars;
        for (const ResourceApplyOp::Scalar& scalar : op.scalars) {
          builder.Input(absl::StrCat(scalar.name, ": ",
                                     scalar.is_integer ? "int64" : "double"));
          scalars.push_back(scalar.name);
        }
        for (const char* name : kPerVariableInputs) {
          builder.Input(absl::StrCat(name, ": double"));
        }
        for (const ScalarInput<FrameInputs>& scalar : kFrameScalars) {
          builder.Input(absl::StrCat(scalar.name, ": ",
                                     scalar.boolean != nullptr   ? "bool"
                                     : scalar.integer != nullptr ? "int64"
                                                                 : "double"));
          scalars.push_back(scalar.name);
        }
        builder.Input("seed: int64");
        scalars.push_back("seed");
        builder.Attr("T: {half, bfloat16, float, double}")
            .Attr("decoupled_weight_decay: bool = true")
            .Attr("maximize: bool = false")
            .Attr("stochastic_rounding: bool = false");
        for (const std::string& attribute : op.attributes) {
          builder.Attr(attribute);
        }
        builder.SetShapeFn(
            [slots = op.slots, scalars,
             sparse](tensorflow::shape_inference::InferenceContext* c) {
              return CheckApplyShapes(c, slots, scalars, sparse);
            });
        builder.Doc(absl::StrCat(op.rule, kCommonDoc,
                                 sparse ? kSparseDoc : kDenseDoc,
                                 op.arguments));
        return builder.Finalize(data);
      });
}

}  // namespace

bool RegisterResourceApplyOp(const ResourceApplyOp& op) {
  Register(op, /*sparse=*/false);
  Register(op, /*sparse=*/true);
  return true;
}

}  // namespace tf_opt
