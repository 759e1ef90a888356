// Registers the resource-apply ops, for dense and for sparse gradients, each
// from the description of its rule: what kernels read is what the op takes.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def_builder.h"
#include "tf_opt/cc/rules/all_rules.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace {

// Documentation of the generated functions. A line that begins with a name
// documents that input or attribute.
constexpr char kDoc[] = R"(
Updates many variables in place by one step, in one launch.

docs/formulas.md has the formulas, and tf_opt.functional describes the rule's
numbers, modes and slots. Slots are float32, or float64 for float64 variables,
or narrower (bfloat16, or float32 for float64), all slots alike. If an argument
is wrong, nothing is written and the op fails, except that a GPU only prints
numbers that are out of range.

variables: Variables of one type and of any shapes, each once.
gradients: A tensor for each variable, of its type.
accumulators: Sums of gradients, of the variables' shapes; or empty.
averages: Moving averages of the variables, of their shapes; or empty.
master_weights: float32 copies of 16-bit variables; or empty.
weight_decay: One number for all variables, or one for each.
learning_rate_factors: Factors of the learning rate: one, or one for each.
gradient_factors: Factors of the gradients after accumulators are added: one,
  or one for each.
gradient_scale: Factor of the gradients before accumulators are added.
clip_value: The greatest magnitude of a gradient's elements, >= 0.
ema_momentum: Weight of the old value in an average, in [0, 1].
overwrite_with_average: Whether to assign the averages to the variables.
enabled: Whether to do the step at all. If not, nothing is read or written.
update: Whether to update. If not, the step only accumulates and averages.
iteration: The number of steps before this one.
seed: The seed of random bits. They also depend on the iteration, the variable's
  number and the element.
variable_numbers: Integers in [-2^53, 2^53]: one, or one for each variable.
counter: An int64 variable that counts steps, in place of `step` (its value + 1)
  and `iteration` (its value), or empty. The step adds 1 to it. Only on CPUs.
rate: A float or double variable in place of `learning_rate`, or empty. Only on
  CPUs.
stochastic_rounding: Whether to round 16-bit variables at random.
decoupled_weight_decay: Whether the decay shrinks the variables (as AdamW does)
  or adds to the gradients (L2).
maximize: Whether to ascend instead of descend.
)";
constexpr char kSlicesDoc[] = R"(
indices: The row of each of the gradients' values, a vector for each variable.
  Repeated rows are summed first. If a row is wrong, nothing is written; a GPU
  prints it, and a later step of this op fails, usually the next.
accumulated_rows: More rows to update, a vector for each variable; or empty.
lazy: Whether to update only the rows that occur. Otherwise the other rows have
  a gradient of zero.
tables: The variables' names in errors; or empty.
)";

void AddVariables(const Operand& operand, tensorflow::OpDefBuilder* builder) {
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

absl::Status Define(const RuleInfo& rule, OpForm form,
                    tensorflow::OpRegistrationData* data) {
  tensorflow::OpDefBuilder builder(absl::StrCat(form.prefix(), rule.op));
  AddVariables(kFrameOperands[kVariable], &builder);
  for (const Operand& slot : rule.operands(form)) AddVariables(slot, &builder);
  builder.Input("gradients: N * T").Attr("N: int >= 1");
  for (const FrameOperand k : {kAccumulator, kAverage, kMasterWeight}) {
    AddVariables(kFrameOperands[k], &builder);
  }
  if (form.sparse) AddSliceInputs(&builder);
  const auto add_scalar = [&](const ScalarInput& scalar) {
    builder.Input(absl::StrCat(scalar.name, ": ", NameOf(scalar.type)));
  };
  for (const ScalarInput& scalar : rule.scalars) add_scalar(scalar);
  for (const Operand& slot : rule.slots) {
    if (slot.is_stacked()) add_scalar({slot.layer_input, ScalarType::kInt64});
  }
  for (const char* name : kPerVariableInputs) {
    builder.Input(absl::StrCat(name, ": double"));
  }
  for (const ScalarInput& scalar : kFrameScalars) add_scalar(scalar);
  add_scalar({"seed", ScalarType::kInt64});
  for (const NumberVariable& variable : {kCounter, kRate}) {
    // With a default, so that functions saved without it still load.
    const std::string length = absl::StrCat("num_", variable.name);
    builder.Input(absl::StrCat(variable.name, ": ", length, " * resource"))
        .Attr(absl::StrCat(length, ": int >= 0 = 0"));
  }
  builder.Attr("T: {half, bfloat16, float, double}")
      .Attr("decoupled_weight_decay: bool = true")
      .Attr("maximize: bool = false")
      .Attr("stochastic_rounding: bool = false");
  for (const ScalarInput& mode : rule.modes) {
    builder.Attr(absl::StrCat(mode.name, ": bool = false"));
  }
  builder.Doc(absl::StrCat(kDoc, form.sparse ? kSlicesDoc : ""));
  // Shapes are for the kernel to check: a graph doesn't know all of them.
  builder.SetShapeFn(tensorflow::shape_inference::NoOutputs);
  return builder.Finalize(data);
}

[[maybe_unused]] const bool registered = [] {
  ForEachRule([](auto description) {
    const RuleInfo rule = RuleInfoOf<typename decltype(description)::type>();
    for (const OpForm form : rule.forms()) {
      tensorflow::OpRegistry::Global()->Register(
          [rule, form](tensorflow::OpRegistrationData* data) {
            return Define(rule, form, data);
          });
    }
  });
  return true;
}();

}  // namespace
}  // namespace tf_opt
