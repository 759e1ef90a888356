// What a pass over variables reads and writes, as data: op, shape function,
// kernels and engines all read it here. An operand is an input of the op, one
// array for each variable.
#ifndef TF_OPT_CC_RULES_OPERAND_H_
#define TF_OPT_CC_RULES_OPERAND_H_

namespace tf_opt {

enum class Role {
  kRead,     // Only read: a tensor.
  kUpdated,  // Read and written: a variable.
};

// What type its elements have.
enum class Storage {
  kVariable,    // That of the variable.
  kArithmetic,  // That of the arithmetic (engines/storage_types.h).
  kState,       // That of the arithmetic, or a shorter one.
};

// How state is stored: as the arithmetic has it, or shorter.
enum class StateType : unsigned char { kArithmetic, kFloat, kBFloat16 };

// How state is rounded where it is stored in 16 bits. What moves by small steps
// would stand still if it were rounded to nearest.
enum class Rounding { kAtRandom, kToNearest };

struct Operand {
  // A slot.
  constexpr Operand(const char* name) : name(name) {}
  constexpr Operand(const char* name, Role role, Storage storage)
      : name(name), role(role), storage(storage) {}

  // One that the op may be given empty: a mode without it.
  static constexpr Operand Optional(const char* name) {
    Operand operand(name);
    operand.optional = true;
    return operand;
  }

  // One row of a table, that which the scalar input `row_input` names. The
  // shape of the variable behind it is [rows] + the shape of what it belongs
  // to.
  static constexpr Operand RowOfTable(const char* name, const char* row_input) {
    Operand operand(name);
    operand.row_input = row_input;
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

  constexpr bool is_row_of_table() const { return row_input != nullptr; }

  const char* name;
  Role role = Role::kUpdated;
  Storage storage = Storage::kState;
  Rounding rounding = Rounding::kAtRandom;
  bool optional = false;
  const char* row_input = nullptr;
};

// What every step has, whatever its rule; the rule's slots come after them. An
// operand's number is also that of its random bits: a new one goes to the end.
enum FrameOperand {
  kVariable,
  kGradient,
  kAccumulator,
  kAverage,
  kMasterWeight
};
inline constexpr int kFrameOperandCount = 5;
inline constexpr Operand kFrameOperands[kFrameOperandCount] = {
    {"variables", Role::kUpdated, Storage::kVariable},
    {"gradients", Role::kRead, Storage::kVariable},
    Operand::Optional("accumulators").Stored(Storage::kArithmetic),
    Operand::Optional("averages"),
    Operand::Optional("master_weights").Stored(Storage::kArithmetic)};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_OPERAND_H_
