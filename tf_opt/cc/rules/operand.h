// Operands of a step as data, which the op, its shape function, the kernels and
// the engines all read. An operand is an input of the op with one array for
// each variable.
#ifndef TF_OPT_CC_RULES_OPERAND_H_
#define TF_OPT_CC_RULES_OPERAND_H_

namespace tf_opt {

// Type of its elements.
enum class Storage {
  kVariable,    // The variable's type.
  kArithmetic,  // The arithmetic's type (engines/storage_types.h).
  kState,       // The arithmetic's type or a shorter one.
  // Of the rows of a table that wait; see rules/coasting.h.
  kSince,     // Floats.
  kCoasting,  // Doubles: a MissedSteps for each step.
};

// Type of stored state: the arithmetic's or a shorter one.
enum class StateType : unsigned char { kArithmetic, kFloat, kBFloat16 };

// Rounding of state that is stored in 16 bits. Rounded to nearest, state that
// changes in small steps would never change.
enum class Rounding { kAtRandom, kToNearest };

struct Operand {
  // A slot.
  constexpr Operand(const char* name) : name(name) {}

  // An operand that may be empty, which turns its mode off.
  static constexpr Operand Optional(const char* name) {
    Operand operand(name);
    operand.optional = true;
    return operand;
  }

  // A slot that the rule's row-wise form has by row; see description.h.
  static constexpr Operand MayBeByRow(const char* name) {
    Operand operand(name);
    operand.may_be_by_row = true;
    return operand;
  }

  // A slot with many layers, of which a step takes the one whose number is the
  // scalar input `layer_input`. Its shape is [layers] + the variable's shape.
  static constexpr Operand Stacked(const char* name, const char* layer_input) {
    Operand operand(name);
    operand.layer_input = layer_input;
    return operand;
  }

  constexpr Operand Rounded(Rounding how) const {
    Operand operand = *this;
    operand.rounding = how;
    return operand;
  }

  constexpr Operand Stored(Storage as) const {
    Operand operand = *this;
    operand.storage = as;
    return operand;
  }

  // With one element for each row of the variable. It is never rounded.
  constexpr Operand ByRow() const {
    Operand operand = *this;
    operand.by_row = true;
    if (storage == Storage::kState) operand.storage = Storage::kArithmetic;
    return operand;
  }

  constexpr bool is_stacked() const { return layer_input != nullptr; }

  // Whether a boolean of the rule's variant tells if the step has it of each
  // element; see description.h.
  constexpr bool is_choice() const {
    return (optional || may_be_by_row) && !is_of_waiting_rows();
  }

  // Whether it belongs to rows that wait.
  constexpr bool is_of_waiting_rows() const {
    return storage == Storage::kSince || storage == Storage::kCoasting;
  }

  const char* name;
  Storage storage = Storage::kState;
  Rounding rounding = Rounding::kAtRandom;
  bool optional = false;
  bool by_row = false;
  bool may_be_by_row = false;
  const char* layer_input = nullptr;
};

// Operands of every step; the rule's slots follow. Gradients are tensors, which
// are only read, the others are variables. An operand's index also selects its
// random bits: append new ones.
enum FrameOperand {
  kVariable,
  kGradient,
  kAccumulator,
  kAverage,
  kMasterWeight
};
inline constexpr int kFrameOperandCount = 5;
// The most slots of a rule.
inline constexpr int kMostSlots = 3;
inline constexpr int kMostOperands = kFrameOperandCount + kMostSlots;
// Offset of the operands' random bits where rows that coast are rounded.
inline constexpr int kCoastingStreams = 16;
inline constexpr Operand kFrameOperands[kFrameOperandCount] = {
    Operand("variables").Stored(Storage::kVariable),
    Operand("gradients").Stored(Storage::kVariable),
    Operand::Optional("accumulators").Stored(Storage::kArithmetic),
    Operand::Optional("averages"),
    Operand::Optional("master_weights").Stored(Storage::kArithmetic)};

// Operands of sparse steps of rules that coast. They follow the slots.
inline constexpr Operand kWaitingOperands[] = {
    Operand::Optional("since").Stored(Storage::kSince).ByRow(),
    Operand::Optional("coasting").Stored(Storage::kCoasting)};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_OPERAND_H_
