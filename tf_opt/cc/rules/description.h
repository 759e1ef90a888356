// What a rule's description, the struct at the end of its header, tells about
// the rule's class template.
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
//   static MissedStep Missed(const Step& step, const VariableInputs& own);
//   static V Direction(const V& epsilon, const V& slot...);
#ifndef TF_OPT_CC_RULES_DESCRIPTION_H_
#define TF_OPT_CC_RULES_DESCRIPTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/type_list.h"

namespace tf_opt {

// Base of a description: a rule without attributes of its own.
template <typename Hyperparameters_, template <typename, bool...> class Rule_>
struct DescriptionOf {
  using Hyperparameters = Hyperparameters_;
  template <typename V, bool... kVariant>
  using Rule = Rule_<V, kVariant...>;
  static constexpr std::array<ScalarInput<Hyperparameters>, 0> kModes = {};
  static constexpr bool kCoasts = false;
};

template <typename Description>
constexpr int CountSlotChoices() {
  int count = 0;
  for (const Operand& slot : Description::kSlotOperands) {
    count += slot.is_choice();
  }
  return count;
}

// Number of booleans that choose a rule.
template <typename Description>
inline constexpr int kVariantBits = CountSlotChoices<Description>();
template <typename Description>
inline constexpr int kVariants = 1 << kVariantBits<Description>;

template <typename Description, typename V, int kVariant, typename Bits>
struct VariantOf;
template <typename Description, typename V, int kVariant, int... kBits>
struct VariantOf<Description, V, kVariant,
                 std::integer_sequence<int, kBits...>> {
  using type =
      typename Description::template Rule<V, (kVariant >> kBits & 1) != 0 ...>;
};

// The rule with this variant for values of type V.
template <typename Description, typename V, int kVariant>
using RuleOf = typename VariantOf<
    Description, V, kVariant,
    std::make_integer_sequence<int, kVariantBits<Description>>>::type;

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

// The k-th slot of a variant, whose `choices` are the slots' booleans. A slot
// by row isn't among them.
template <typename Description>
constexpr Operand SlotOf(const bool* choices, int k) {
  for (const Operand& slot : Description::kSlotOperands) {
    if (slot.optional && !*choices++) continue;
    if (slot.may_be_by_row && *choices++) continue;
    if (k-- == 0) return slot;
  }
  return Operand(nullptr);
}

template <typename Rule>
struct SlotsOf;
template <template <typename, bool...> class Rule, typename V, bool... kVariant>
struct SlotsOf<Rule<V, kVariant...>> {
  template <std::size_t... kIndices>
  static constexpr std::array<Operand, sizeof...(kIndices)> Make(
      std::index_sequence<kIndices...>) {
    using Description = typename Rule<V, kVariant...>::Description;
    [[maybe_unused]] constexpr std::array<bool, sizeof...(kVariant)> kChoices =
        {kVariant...};
    return {{SlotOf<Description>(kChoices.data(), kIndices)...}};
  }
};

// The slots that a rule has of each element.
template <typename Rule>
inline constexpr auto kSlotsOf =
    SlotsOf<Rule>::Make(std::make_index_sequence<Rule::kSlots>());

// Some operands of a step: a bit for each.
using OperandSet = uint32_t;

TF_OPT_RULE_INLINE constexpr bool Has(OperandSet operands, int operand) {
  return (operands >> operand & 1) != 0;
}

// The operands of a rule's step for which `is_one` is true.
template <typename Rule, typename IsOne>
constexpr OperandSet OperandsOf(const IsOne& is_one) {
  static_assert(Rule::kSlots <= kMostSlots, "no room for the slots");
  OperandSet operands = 0;
  for (int k = 0; k < kFrameOperandCount; ++k) {
    if (is_one(kFrameOperands[k])) operands |= 1u << k;
  }
  for (int k = 0; k < Rule::kSlots; ++k) {
    if (is_one(kSlotsOf<Rule>[k])) operands |= 1u << (kFrameOperandCount + k);
  }
  return operands;
}

// Those that are a row of a table.
template <typename Rule>
inline constexpr OperandSet kTablesOf = OperandsOf<Rule>(
    [](const Operand& operand) { return operand.is_row_of_table(); });

// Those that are rounded at random.
template <typename Rule>
inline constexpr OperandSet kRoundedAtRandom =
    OperandsOf<Rule>([](const Operand& operand) {
      return operand.rounding == Rounding::kAtRandom;
    });

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_DESCRIPTION_H_
