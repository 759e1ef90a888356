// A rule's description, the struct at the end of its header: what it tells
// about the rule's class template; and the description as a value, RuleInfo,
// for code that is the same for all rules.
//
// A description has the op's name (kOp), the slots (kSlotOperands), the scalar
// inputs (kScalars), the boolean attributes that only this op has (kModes;
// every op has `maximize`) and the class template (Rule). The template's
// arguments are the type of the arithmetic, for each optional slot whether it
// is present, and for one that may be by row whether it is; none are an empty
// pack. As bits of an integer, the lowest first, the booleans are the rule's
// variant.
//
// A rule with a slot by row, its last one, is row-wise: it sets kRowWise and
// has
//
//   Rule ForRow(const V& mean_square, V* state) const;
//
// ForRow updates a row's state by the mean square of its gradient, and returns
// the rule of the row's elements.
//
// If rows can coast while they wait (coasting.h), the description sets kCoasts,
// and the class template has
//
//   static MissedStep Missed(const Scalars&, const VariableInputs& own);
//   static V Direction(const V& epsilon, const V& slot...);
#ifndef TF_OPT_CC_RULES_DESCRIPTION_H_
#define TF_OPT_CC_RULES_DESCRIPTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Passes a type to a generic function.
template <typename T>
struct TypeTag {
  using type = T;
};

template <typename... Types>
struct TypeList {};

// Calls use(TypeTag<T>()) for each type T of the list.
template <typename... Types, typename Use>
void ForEachType(TypeList<Types...>, const Use& use) {
  (use(TypeTag<Types>()), ...);
}

// Base of a description: a rule without attributes of its own.
template <typename Hyperparameters_, template <typename, bool...> class Rule_>
struct DescriptionOf {
  using Hyperparameters = Hyperparameters_;
  template <typename V, bool... kVariant>
  using Rule = Rule_<V, kVariant...>;
  static constexpr std::array<ScalarInput, 0> kModes = {};
  static constexpr bool kCoasts = false;
};

// Number of booleans that choose a rule.
template <typename Description>
inline constexpr int kVariantBits = [] {
  int count = 0;
  for (const Operand& slot : Description::kSlotOperands) {
    count += slot.is_choice();
  }
  return count;
}();
template <typename Description>
inline constexpr int kVariants = 1 << kVariantBits<Description>;

// Calls use(TypeTag<Rule>()) with this variant and returns the result.
template <typename Description, typename V, bool... kChosen, typename Use>
auto WithRule(int variant, const Use& use) {
  constexpr int kBit = sizeof...(kChosen);
  if constexpr (kBit == kVariantBits<Description>) {
    return use(TypeTag<typename Description::template Rule<V, kChosen...>>());
  } else {
    return variant >> kBit & 1
               ? WithRule<Description, V, kChosen..., true>(variant, use)
               : WithRule<Description, V, kChosen..., false>(variant, use);
  }
}

// Some operands of a step: a bit for each.
using OperandSet = uint32_t;

TF_OPT_RULE_INLINE constexpr bool Has(OperandSet operands, int operand) {
  return (operands >> operand & 1) != 0;
}

// The stacked operands of a rule's step: slots in front of optional ones, which
// come last.
template <typename Rule>
inline constexpr OperandSet kStackedOf = [] {
  OperandSet stacked = 0;
  int k = kFrameOperandCount;
  for (const Operand& slot : Rule::Description::kSlotOperands) {
    if (slot.is_stacked()) stacked |= 1u << k;
    ++k;
  }
  return stacked;
}();

// One of a rule's ops.
struct OpForm {
  // The op's name, without the rule's.
  const char* prefix() const {
    return sparse     ? row_wise ? "TfOpt>ResourceSparseApplyRowWise"
                                 : "TfOpt>ResourceSparseApply"
           : row_wise ? "TfOpt>ResourceApplyRowWise"
                      : "TfOpt>ResourceApply";
  }

  bool sparse = false;    // For gradients of some rows.
  bool row_wise = false;  // With slots by row.
};

// A rule's hyperparameters without their type.
using RuleNumbers = std::vector<char>;

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

  const char* op;  // "X" of TfOpt>ResourceApplyX.
  std::vector<Operand> slots;
  bool coasts;  // Whether rows can coast while they wait; see coasting.h.
  std::vector<ScalarInput> scalars;
  std::vector<ScalarInput> modes;
  RuleNumbers numbers;  // All zero.
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
          {std::begin(modes), std::end(modes)},
          RuleNumbers(sizeof(typename Description::Hyperparameters))};
}

template <typename Description>
typename Description::Hyperparameters HyperparametersOf(
    const RuleNumbers& numbers) {
  typename Description::Hyperparameters hyperparameters;
  std::memcpy(&hyperparameters, numbers.data(), sizeof(hyperparameters));
  return hyperparameters;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_DESCRIPTION_H_
