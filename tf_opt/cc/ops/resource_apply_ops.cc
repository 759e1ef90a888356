// Registers the resource-apply ops, for dense and for sparse gradients, each
// from the description of its rule: what kernels read is what the op takes.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def_builder.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/shape_functions.h"
#include "tf_opt/cc/rules/all_rules.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/rule_info.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace {

constexpr char kCommonDoc[] = R"doc(

docs/formulas.md has the rule, and the frame around it: scaling, accumulating,
clipping, averaging. If `update` is false, the step only accumulates and averages.
If `enabled` is false, nothing is read or written.

The op writes variables and slots in place, under all their locks. It first
copies a buffer that another tensor shares. If an argument is invalid, nothing is
written. The arithmetic is float32 (float64 if T is double); the scalars of a step
are double.

Slots and averages may be stored in bfloat16, or in float32 if T is double. In
bfloat16 they are rounded at random, so that the mean is right; a running maximum
and stored gradients are rounded to nearest. The random bits are a function of
`seed`, `iteration`, `variable_numbers` and the element.

If there are master weights, the rule updates them, and the 16-bit variables are
their copies, rounded to nearest. If a variable was assigned from outside, so that
its master weight doesn't round to it, the master weight first takes its value.

On a GPU all inputs except the handles and the seed are in device memory, and
nothing is read back: the device prints a number out of its range, and nothing is
written. GPUs have no kernel for sparse gradients.

variables: Handles of the variables to update, of type T; or one
  TfOpt>VariableGroup of them.
accumulators: Handles of sums of gradients, float32 (double if T is double), one
  for each of `variables`, or one group. Empty: nothing is accumulated.
averages: Handles of the variables' moving averages, stored like slots; one for
  each of `variables`, or one group. Empty: no averages.
master_weights: Handles of the variables in float32, if T is half or bfloat16;
  one for each of `variables`, or one group. Empty: no master weights.
weight_decay: Scalar, or a vector with one element for each of `variables`; 0
  for no decay.
learning_rate_factors: Factors of the learning rate, as a scalar or a vector.
gradient_factors: Factors of the gradient, as a scalar or a vector.
variable_numbers: Number of each variable in its optimizer, for the random bits,
  as a scalar or a vector: integers in [-2^53, 2^53].
gradient_scale: Scalar factor of the gradient before it is added to the
  accumulator.
clip_value: Scalar >= 0; infinity for no clipping.
ema_momentum: Scalar in [0, 1], the part of an average that remains.
overwrite_with_average: Scalar; if true, the variables become their averages.
enabled: Scalar; if false, the op does nothing.
update: Scalar; if false, the step only accumulates.
iteration: Scalar, the number of steps so far, for the random bits.
seed: Scalar in the host's memory, for the random bits.
stochastic_rounding: If true, 16-bit variables without master weights are rounded
  at random too.
decoupled_weight_decay: If true, decays the variable instead of adding to the
  gradient (L2).
maximize: Ascend instead of descend.
)doc";

constexpr char kDenseDoc[] = R"doc(
gradients: One for each of `variables`, of its shape.
)doc";

constexpr char kSparseDoc[] = R"doc(
gradients: Some rows of the gradient of each of `variables`, which are tables of
  rows: any number of rows of its shape.
indices: For each of `gradients`, a vector with the table row of each of its rows,
  as in tf.IndexedSlices. Rows for the same table row are summed, in their order,
  in the type of the arithmetic, and rounded to T.
accumulated_rows: Rows of each table, with repetitions, that were accumulated:
  the op treats them as if they occurred, with a gradient of zero. Or empty.
lazy: If false, all rows are updated; those that don't occur have a gradient of
  zero. If true, rows that don't occur are neither read nor written.
tables: Names of the variables for error messages; or empty.
)doc";

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

const char* NameOf(ScalarType type) {
  return type == ScalarType::kBool    ? "bool"
         : type == ScalarType::kInt64 ? "int64"
                                      : "double";
}

// Breaks a text into lines, all but the first indented.
std::string Wrapped(const std::string& text, const std::string& indent) {
  constexpr std::size_t kColumns = 80;
  std::string wrapped;
  std::size_t column = 0;
  for (const auto word : absl::StrSplit(text, ' ')) {
    const bool fits = column + 1 + word.size() <= kColumns;
    const std::string before = wrapped.empty() ? ""
                               : fits          ? " "
                                               : "\n" + indent;
    column = (fits ? column + before.size() : indent.size()) + word.size();
    absl::StrAppend(&wrapped, before, word);
  }
  return wrapped;
}

std::string DocOf(const char* name, const char* doc) {
  return Wrapped(absl::StrCat(name, ": ", doc), "  ") + "\n";
}

// The scalar inputs of the op before those of every op.
std::vector<ScalarInfo> ScalarsOf(const RuleInfo& rule) {
  std::vector<ScalarInfo> scalars = rule.scalars;
  for (const Operand& slot : rule.slots) {
    if (!slot.is_row_of_table()) continue;
    scalars.push_back(
        {slot.row_input, ScalarType::kInt64, Range::kAny, slot.row_doc});
  }
  return scalars;
}

std::string DocOf(const RuleInfo& rule, bool sparse) {
  std::string doc = absl::StrCat("\n", Wrapped(rule.summary, ""), kCommonDoc,
                                 sparse ? kSparseDoc : kDenseDoc);
  for (const Operand& operand : rule.operands(sparse)) {
    doc += DocOf(operand.name, operand.doc);
  }
  for (const ScalarInfo& scalar : ScalarsOf(rule)) {
    doc += DocOf(scalar.name, scalar.doc);
  }
  for (const ScalarInfo& mode : rule.modes) doc += DocOf(mode.name, mode.doc);
  return doc;
}

absl::Status Define(const RuleInfo& rule, bool sparse,
                    tensorflow::OpRegistrationData* data) {
  tensorflow::OpDefBuilder builder(OpName(rule.op, sparse));
  for (const Operand& operand : InputOrder(rule.operands(sparse))) {
    AddOperand(operand, &builder);
  }
  if (sparse) AddSliceInputs(&builder);
  std::vector<std::string> scalars;
  const auto add_scalar = [&](const ScalarInfo& scalar) {
    builder.Input(absl::StrCat(scalar.name, ": ", NameOf(scalar.type)));
    scalars.push_back(scalar.name);
  };
  for (const ScalarInfo& scalar : ScalarsOf(rule)) add_scalar(scalar);
  for (const char* name : kPerVariableInputs) {
    builder.Input(absl::StrCat(name, ": double"));
  }
  for (const ScalarInfo& scalar : kFrameScalars) add_scalar(scalar);
  add_scalar({"seed", ScalarType::kInt64});
  builder.Attr("T: {half, bfloat16, float, double}")
      .Attr("decoupled_weight_decay: bool = true")
      .Attr("maximize: bool = false")
      .Attr("stochastic_rounding: bool = false");
  for (const ScalarInfo& mode : rule.modes) {
    builder.Attr(absl::StrCat(mode.name, ": bool = false"));
  }
  builder.SetShapeFn([slots = rule.operands(sparse), scalars, sparse](
                         tensorflow::shape_inference::InferenceContext* c) {
    return CheckApplyShapes(c, slots, scalars, sparse);
  });
  builder.Doc(DocOf(rule, sparse));
  return builder.Finalize(data);
}

[[maybe_unused]] const bool registered = [] {
  ForEachRule([](auto description) {
    const RuleInfo rule = RuleInfoOf<typename decltype(description)::type>();
    for (const bool sparse : {false, true}) {
      tensorflow::OpRegistry::Global()->Register(
          [rule, sparse](tensorflow::OpRegistrationData* data) {
            return Define(rule, sparse, data);
          });
    }
  });
  return true;
}();

}  // namespace
}  // namespace tf_opt
