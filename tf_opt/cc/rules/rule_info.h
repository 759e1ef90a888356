// A rule's description as a value, and the values of a step's numbers, for code
// that is the same for all rules.
#ifndef TF_OPT_CC_RULES_RULE_INFO_H_
#define TF_OPT_CC_RULES_RULE_INFO_H_

#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {

// One of a rule's ops.
struct OpForm {
  bool sparse = false;    // For gradients of some rows.
  bool row_wise = false;  // With slots by row.
};

struct RuleInfo {
  std::vector<OpForm> forms() const {
    std::vector<OpForm> all = {{false}, {true}};
    for (const Operand& slot : slots) {
      if (!slot.may_be_by_row) continue;
      all.push_back({false, true});
      all.push_back({true, true});
    }
    return all;
  }

  std::string op_name(OpForm form) const {
    return std::string("TfOpt>Resource") + (form.sparse ? "Sparse" : "") +
           "Apply" + (form.row_wise ? "RowWise" : "") + op;
  }

  // Operands that only this op has. For sparse gradients, they end with those
  // of waiting rows, if the rule coasts.
  std::vector<Operand> operands(OpForm form) const {
    std::vector<Operand> all;
    for (const Operand& slot : slots) {
      const bool by_row = form.row_wise && slot.may_be_by_row;
      all.push_back(by_row ? slot.ByRow() : slot);
    }
    if (form.sparse && coasts) {
      all.insert(all.end(), std::begin(kWaitingOperands),
                 std::end(kWaitingOperands));
    }
    return all;
  }

  std::string op;  // "X" of TfOpt>ResourceApplyX.
  std::vector<Operand> slots;
  bool coasts;  // Whether rows can coast while they wait; see coasting.h.
  std::vector<ScalarInfo> scalars;
  std::vector<ScalarInfo> modes;
};

template <typename Description>
RuleInfo RuleInfoOf() {
  const auto& slots = Description::kSlotOperands;
  const auto& scalars = Description::kScalars;
  const auto& modes = Description::kModes;
  return {Description::kOp,
          {std::begin(slots), std::end(slots)},
          Description::kCoasts,
          {std::begin(scalars), std::end(scalars)},
          {std::begin(modes), std::end(modes)}};
}

// Numbers of a step, in the order of its RuleInfo.
struct RuleValues {
  std::vector<ScalarValue> scalars;
  std::vector<ScalarValue> modes;
};

// Returns the values as the rule takes them; scalars may be missing.
template <typename Description>
typename Description::Hyperparameters HyperparametersOf(
    const RuleValues& values) {
  typename Description::Hyperparameters hyperparameters;
  for (std::size_t k = 0; k < values.modes.size(); ++k) {
    Description::kModes[k].Read(&values.modes[k], &hyperparameters);
  }
  for (std::size_t k = 0; k < values.scalars.size(); ++k) {
    Description::kScalars[k].Read(&values.scalars[k], &hyperparameters);
  }
  return hyperparameters;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_RULE_INFO_H_
