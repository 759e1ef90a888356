#include "tf_opt/cc/kernels/apply_launch.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/rules/all_rules.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace {

const Optimizer* FindOptimizer(const std::string& op, OpForm* form) {
  for (const Optimizer& optimizer : AllOptimizers()) {
    for (const OpForm one : optimizer.rule.forms()) {
      if (op != absl::StrCat(one.prefix(), optimizer.rule.op)) continue;
      *form = one;
      return &optimizer;
    }
  }
  return nullptr;
}

bool Has16Bits(tensorflow::DataType type) {
  return type == tensorflow::DT_HALF || type == tensorflow::DT_BFLOAT16;
}

// Checks, under the lock, that a list is one scalar variable of these types.
absl::Status CheckNumber(const VariableList& list,
                         tensorflow::DataTypeSet types, const char* expected) {
  const tensorflow::Tensor& first = *list[0]->tensor();
  if (list.size() == 1 && list[0]->is_initialized && first.IsInitialized() &&
      first.dims() == 0 && types.Contains(first.dtype())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("`", list.name(), "` must be one scalar variable of ",
                   expected, " or empty, got ", list.size(), ", the first of ",
                   tensorflow::DataTypeString(first.dtype()), " and shape ",
                   first.shape().DebugString()));
}

}  // namespace

const std::vector<Optimizer>& AllOptimizers() {
  static const auto& optimizers = *[] {
    auto* const all = new std::vector<Optimizer>;
    ForEachRule([all](auto description) {
      using Description = typename decltype(description)::type;
      all->push_back(
          {RuleInfoOf<Description>(),
           {MakeRules<Description, float>, MakeRules<Description, double>}});
    });
    return all;
  }();
  return optimizers;
}

absl::Status ApplyAttributes::Read(const tensorflow::NodeDef& node) {
  OpForm form;
  optimizer = FindOptimizer(node.op(), &form);
  if (optimizer == nullptr) {
    return absl::InternalError(
        absl::StrCat("no optimizer has the op `", node.op(), "`"));
  }
  const tensorflow::AttrSlice attributes(node);
  TF_RETURN_IF_ERROR(GetNodeAttr(attributes, "N", &count));
  step.rows.sparse = form.sparse;
  if (form.sparse) {
    TF_RETURN_IF_ERROR(GetNodeAttr(attributes, "lazy", &step.rows.lazy));
    TF_RETURN_IF_ERROR(GetNodeAttr(attributes, "tables", &tables.names));
  }
  int bit = 1;
  for (const Operand& slot : optimizer->rule.operands(form)) {
    int length = 0;
    TF_RETURN_IF_ERROR(
        GetNodeAttr(attributes, absl::StrCat("num_", slot.name), &length));
    if (slot.storage == Storage::kCoasting && length > 0 &&
        (slots.empty() || slots.back().storage != Storage::kSince)) {
      return absl::InvalidArgumentError(
          "`coasting` must be empty where `since` is");
    }
    if (length > 0) slots.push_back(slot);
    if (!slot.is_choice()) continue;
    if (slot.may_be_by_row ? slot.by_row : length > 0) step.variant |= bit;
    bit <<= 1;
  }
  step.rows.waits = !slots.empty() && slots.back().is_of_waiting_rows();
  if (step.rows.waits && slots.back().storage == Storage::kSince) {
    return absl::InvalidArgumentError(
        "`coasting` must have one variable for each of `since`, got none");
  }
  TF_RETURN_IF_ERROR(GetNodeAttr(attributes, "decoupled_weight_decay",
                                 &step.frame.decoupled_weight_decay));
  TF_RETURN_IF_ERROR(GetNodeAttr(attributes, "maximize", &step.frame.maximize));
  TF_RETURN_IF_ERROR(
      GetNodeAttr(attributes, "stochastic_rounding", &stochastic_rounding));
  step.numbers = optimizer->rule.numbers;
  for (const ScalarInput& mode : optimizer->rule.modes) {
    TF_RETURN_IF_ERROR(
        GetNodeAttr(attributes, mode.name,
                    static_cast<bool*>(mode.In(step.numbers.data()))));
  }
  return absl::OkStatus();
}

ApplyLaunch::ApplyLaunch(const ApplyAttributes& attributes)
    : step(attributes.step),
      attributes_(attributes),
      operands_(std::begin(kFrameOperands), std::end(kFrameOperands)) {
  operands_.insert(operands_.end(), attributes.slots.begin(),
                   attributes.slots.end());
  arrays_.resize(operands_.size() * size());
  for (int k = 0; k < static_cast<int>(operands_.size()); ++k) {
    if (operands_[k].is_stacked()) stacked_ = k;
  }
}

absl::Status ApplyLaunch::Prepare(tensorflow::OpKernelContext* context,
                                  bool updates, const CopyBytes& copy_bytes) {
  TF_RETURN_IF_ERROR(LockVariables(context));
  TF_RETURN_IF_ERROR(ReadNumberVariables(context, copy_bytes));
  TF_RETURN_IF_ERROR(FindGradients(context));
  const bool catches_up = step.rows.waits && lists_[kAccumulator].size() == 0;
  for (int k = 0; k < static_cast<int>(lists_.size()); ++k) {
    const bool written = updates || catches_up || IsWrittenWithoutUpdate(k);
    for (int i = 0; i < lists_[k].size(); ++i) {
      if (written) {
        TF_RETURN_IF_ERROR(MakeExclusive(context, lists_[k][i], copy_bytes));
      }
      arrays_[k * size() + i] = lists_[k][i]->tensor();
    }
  }
  step.has_accumulators = has(kAccumulator);
  if (stacked_ >= 0) step.layer.count = CountLayers();
  return CheckTypes();
}

absl::Status ApplyLaunch::LockVariables(tensorflow::OpKernelContext* context) {
  lists_.resize(operands_.size());
  std::vector<const VariableList*> present;
  for (std::size_t k = 0; k < lists_.size(); ++k) {
    const Operand& operand = operands_[k];
    if (k == kGradient) continue;
    TF_RETURN_IF_ERROR(lists_[k].Lookup(context, operand.name));
    TF_RETURN_IF_ERROR(CheckLength(operand.name, "variable", operand.optional,
                                   size(), lists_[k].size()));
    present.push_back(&lists_[k]);
  }
  present.insert(present.end(), {&counter_, &rate_});
  return locks_.Lock(present);
}

absl::Status ApplyLaunch::ReadNumberVariables(
    tensorflow::OpKernelContext* context, const CopyBytes& copy_bytes) {
  if (counter_.size() > 0) {
    TF_RETURN_IF_ERROR(
        CheckNumber(counter_, ToSet(tensorflow::DT_INT64), "int64"));
    TF_RETURN_IF_ERROR(MakeExclusive(context, counter_[0], copy_bytes));
    step.frame.iteration = counter_[0]->tensor()->scalar<int64_t>()();
    // Past the greatest number follows a negative one, which is refused.
    step_number_ = static_cast<uint64_t>(step.frame.iteration) + 1;
  }
  if (rate_.size() > 0) {
    TF_RETURN_IF_ERROR(CheckNumber(
        rate_, ToSet(tensorflow::DT_FLOAT) | ToSet(tensorflow::DT_DOUBLE),
        "float or double"));
    const tensorflow::Tensor& rate = *rate_[0]->tensor();
    learning_rate_ = rate.dtype() == tensorflow::DT_FLOAT
                         ? rate.scalar<float>()()
                         : rate.scalar<double>()();
  }
  return absl::OkStatus();
}

void ApplyLaunch::Count() {
  if (counter_.size() > 0) {
    counter_[0]->tensor()->scalar<int64_t>()() = step_number_;
  }
}

absl::Status ApplyLaunch::FindGradients(tensorflow::OpKernelContext* context) {
  tensorflow::OpInputList gradients;
  TF_RETURN_IF_ERROR(context->input_list("gradients", &gradients));
  const bool sparse = step.rows.sparse;
  const char* const whose = sparse ? "variables" : "gradients";
  std::vector<tensorflow::TensorShape> tables;
  for (int i = 0; i < size(); ++i) {
    const tensorflow::TensorShape& shape =
        sparse ? lists_[kVariable][i]->tensor()->shape() : gradients[i].shape();
    for (std::size_t k = 0; k < lists_.size(); ++k) {
      if (lists_[k].size() == 0) continue;
      TF_RETURN_IF_ERROR(CheckVariable(lists_[k], i, operands_[k],
                                       gradients[i].dtype(), shape, whose));
    }
    if (sparse) {
      tables.push_back(shape);
    } else {
      arrays_[kGradient * size() + i] = &gradients[i];
    }
  }
  return sparse ? FindSlices(context, attributes_.tables, tables, &step.slices)
                : absl::OkStatus();
}

// A step that only accumulates writes no slot, and a variable only where it
// stores an average.
bool ApplyLaunch::IsWrittenWithoutUpdate(int operand) const {
  return operand == kAccumulator || operand == kAverage ||
         ((operand == kVariable || operand == kMasterWeight) &&
          lists_[kAverage].size() > 0);
}

int64_t ApplyLaunch::CountLayers() const {
  int64_t layers = array(stacked_, 0).dim_size(0);
  for (int i = 1; i < size(); ++i) {
    layers = std::min(layers, array(stacked_, i).dim_size(0));
  }
  return layers;
}

absl::Status ApplyLaunch::CheckTypes() const {
  if (has(kMasterWeight) && !Has16Bits(array(kVariable, 0).dtype())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`master_weights` must be empty where variables aren't half or "
        "bfloat16; these are ",
        tensorflow::DataTypeString(array(kVariable, 0).dtype())));
  }
  // All slots of a variable are stored in one type.
  for (int i = 0; i < size(); ++i) {
    int first = -1;
    for (int k = kFrameOperandCount; k < static_cast<int>(operands_.size());
         ++k) {
      if (operands_[k].storage != Storage::kState || !has(k)) continue;
      if (first < 0) first = k;
      const tensorflow::DataType expected = array(first, i).dtype();
      if (array(k, i).dtype() == expected) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "`", operands_[k].name, "[", i, "]` must have the type of `",
          operands_[first].name, "[", i, "]`, ",
          tensorflow::DataTypeString(expected), ", got ",
          tensorflow::DataTypeString(array(k, i).dtype())));
    }
  }
  return absl::OkStatus();
}

absl::Status ApplyLaunch::ErrorOf(const Refusal& refusal) const {
  switch (refusal.kind) {
    case Refusal::kIndex:
    case Refusal::kAccumulatedRow:
      return BadRowError(refusal, attributes_.tables);
    case Refusal::kLayer:
      return absl::InvalidArgumentError(
          absl::StrCat("`", step.layer.input, "` must be in [0, ",
                       step.layer.count, "), the rows of `",
                       operands_[stacked_].name, "`, got ", refusal.row));
    case Refusal::kNoAccumulators:
      return absl::InvalidArgumentError(
          "`accumulators` must hold one variable for each gradient where "
          "`update` is false, got none");
    default:
      const ScalarInput& scalar =
          refusal.kind == Refusal::kScalar
              ? attributes_.optimizer->rule.scalars[refusal.index]
              : kFrameScalars[refusal.index];
      return absl::InvalidArgumentError(
          absl::StrCat("`", scalar.name, "` must be ", Describe(scalar.range),
                       ", got ", refusal.scalar));
  }
}

OperandSet ApplyLaunch::RoundedAtRandom() const {
  OperandSet rounded = 0;
  if (attributes_.stochastic_rounding &&
      Has16Bits(array(kVariable, 0).dtype()) && !has(kMasterWeight)) {
    rounded |= 1u << kVariable;
  }
  for (int k = 0; k < static_cast<int>(operands_.size()); ++k) {
    if (!has(k) || operands_[k].storage != Storage::kState ||
        operands_[k].rounding != Rounding::kAtRandom) {
      continue;
    }
    for (int i = 0; i < size(); ++i) {
      if (array(k, i).dtype() == tensorflow::DT_BFLOAT16) rounded |= 1u << k;
    }
  }
  return rounded;
}

void ApplyLaunch::AddArrays(int64_t layer) {
  step.frame.rounded_at_random = RoundedAtRandom();
  StepArrays& arrays = step.arrays;
  arrays.element = ElementTypeOf(array(kVariable, 0).dtype());
  arrays.sizes.reserve(size());
  arrays.widths.reserve(size());
  for (int i = 0; i < size(); ++i) {
    arrays.sizes.push_back(array(kVariable, i).NumElements());
    arrays.widths.push_back(WidthOf(array(kVariable, i)));
  }
  const int last = static_cast<int>(operands_.size()) - 1;
  for (int i = 0; step.rows.waits && i < size(); ++i) {
    step.capacities.push_back(array(last, i).dim_size(0));
  }
  arrays.arrays.resize(arrays_.size());
  for (int k = 0; k < static_cast<int>(operands_.size()); ++k) {
    if (!has(k)) continue;
    for (int i = 0; i < size(); ++i) {
      const tensorflow::Tensor& found = array(k, i);
      auto* data = static_cast<char*>(found.data());
      if (k == stacked_) {
        data += layer * WidthOf(found) * DataTypeSize(found.dtype());
      }
      arrays.arrays[k * size() + i] = {data, StateTypeOf(k, i)};
    }
  }
}

StateType ApplyLaunch::StateTypeOf(int operand, int i) const {
  if (operands_[operand].storage != Storage::kState) {
    return StateType::kArithmetic;
  }
  const tensorflow::DataType type = array(operand, i).dtype();
  if (type == tensorflow::DT_BFLOAT16) return StateType::kBFloat16;
  return type == ArithmeticType(array(kVariable, i).dtype())
             ? StateType::kArithmetic
             : StateType::kFloat;
}

absl::Status ApplyLaunch::FindNumbers(tensorflow::OpKernelContext* context) {
  const void* data;
  TF_RETURN_IF_ERROR(counter_.Lookup(context, kCounter.name));
  TF_RETURN_IF_ERROR(rate_.Lookup(context, kRate.name));
  for (const ScalarInput& scalar : attributes_.optimizer->rule.scalars) {
    TF_RETURN_IF_ERROR(FindScalar(context, scalar.name, &data));
    // `Prepare` reads these from their variables.
    const absl::string_view name = scalar.name;
    if (counter_.size() > 0 && name == kCounter.scalar) data = &step_number_;
    if (rate_.size() > 0 && name == kRate.scalar) data = &learning_rate_;
    step.scalars.push_back(data);
  }
  for (const ScalarInput& scalar : kFrameScalars) {
    TF_RETURN_IF_ERROR(FindScalar(context, scalar.name, &data));
    step.frame_scalars.push_back(data);
  }
  TF_RETURN_IF_ERROR(FindScalar(context, "seed", &data));
  step.frame.seed = ReadOnce(static_cast<const int64_t*>(data));
  if (stacked_ >= 0) {
    step.layer.input = operands_[stacked_].layer_input;
    TF_RETURN_IF_ERROR(FindScalar(context, step.layer.input, &data));
    step.layer.at = static_cast<const int64_t*>(data);
  }
  PerVariable* vector = step.variables.inputs;
  for (const char* name : kPerVariableInputs) {
    const tensorflow::Tensor* tensor;
    TF_RETURN_IF_ERROR(context->input(name, &tensor));
    if (tensor->dims() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", name, "` must be a scalar or a vector, got shape ",
                       tensor->shape().DebugString()));
    }
    if (tensor->dims() == 1) {
      TF_RETURN_IF_ERROR(CheckLength(name, "element", /*optional=*/false,
                                     size(), tensor->NumElements()));
    }
    *vector++ = {static_cast<const double*>(tensor->data()),
                 tensor->NumElements() == 1};
  }
  return absl::OkStatus();
}

std::vector<std::string> HostInputs(const RuleInfo& rule, OpForm form) {
  std::vector<std::string> inputs = {"seed", kCounter.name, kRate.name};
  for (const FrameOperand k :
       {kVariable, kAccumulator, kAverage, kMasterWeight}) {
    inputs.push_back(kFrameOperands[k].name);
  }
  for (const Operand& operand : rule.operands(form)) {
    inputs.push_back(operand.name);
  }
  return inputs;
}

}  // namespace tf_opt
