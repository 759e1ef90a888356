#include "tf_opt/cc/kernels/apply_attributes.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/rules/all_rules.h"

namespace tf_opt {
namespace {

const Optimizer* FindOptimizer(const std::string& op, OpForm* form) {
  for (const Optimizer& optimizer : AllOptimizers()) {
    for (const OpForm one : optimizer.rule.forms()) {
      if (op != optimizer.rule.op_name(one)) continue;
      *form = one;
      return &optimizer;
    }
  }
  return nullptr;
}

}  // namespace

const std::vector<Optimizer>& AllOptimizers() {
  static const auto& optimizers = *[] {
    auto* const all = new std::vector<Optimizer>;
    ForEachRule([all](auto description) {
      using Description = typename decltype(description)::type;
      all->push_back({RuleInfoOf<Description>(), ApplyOnCpu<Description>});
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
  TF_RETURN_IF_ERROR(slices.Read(attributes));
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
    if (slot.may_be_by_row ? slot.by_row : length > 0) variant |= bit;
    bit <<= 1;
  }
  if (!slots.empty() && slots.back().storage == Storage::kSince) {
    return absl::InvalidArgumentError(
        "`coasting` must have one variable for each of `since`, got none");
  }
  TF_RETURN_IF_ERROR(GetNodeAttr(attributes, "decoupled_weight_decay",
                                 &frame.decoupled_weight_decay));
  TF_RETURN_IF_ERROR(GetNodeAttr(attributes, "maximize", &frame.maximize));
  TF_RETURN_IF_ERROR(GetNodeAttr(attributes, "stochastic_rounding",
                                 &frame.stochastic_rounding));
  for (const ScalarInfo& mode : optimizer->rule.modes) {
    values.modes.emplace_back();
    TF_RETURN_IF_ERROR(
        GetNodeAttr(attributes, mode.name, &values.modes.back().boolean));
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
