// The numbers that a step goes by, as data: what the op calls each, where it
// belongs and what it may be. So they can be read wherever they are, in the
// memory of a host or of a device, and checked there.
#ifndef TF_OPT_CC_RULES_SCALAR_INPUT_H_
#define TF_OPT_CC_RULES_SCALAR_INPUT_H_

#include <cstdint>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// A number in memory that another library may share, and write to at any time:
// what is checked and what is used must be one value.
template <typename N>
TF_OPT_HOST_DEVICE N ReadOnce(const N* from) {
  return *static_cast<const volatile N*>(from);
}

enum class Range {
  kAny,
  kNonNegative,
  kDecayRate,  // Of a moving average: in [0, 1).
  kFraction,   // In [0, 1].
  // A step, whose bias corrections divide by zero at 0, or a count that
  // something is divided by.
  kPositive,
};

// What an error says was expected.
TF_OPT_HOST_DEVICE inline const char* Describe(Range range) {
  switch (range) {
    case Range::kNonNegative:
      return ">= 0";
    case Range::kDecayRate:
      return "in [0, 1)";
    case Range::kFraction:
      return "in [0, 1]";
    case Range::kPositive:
      return ">= 1";
    default:
      return "a number";
  }
}

// One of the numbers in Hyperparameters, of one of its three types of Numbers.
template <typename Hyperparameters>
struct ScalarInput {
  using Real = typename Hyperparameters::Numbers::Real;
  using Integer = typename Hyperparameters::Numbers::Integer;
  using Boolean = typename Hyperparameters::Numbers::Boolean;

  constexpr ScalarInput() = default;
  constexpr ScalarInput(const char* name, Real Hyperparameters::* number,
                        Range range = Range::kAny)
      : name(name), number(number), range(range) {}
  constexpr ScalarInput(const char* name, Integer Hyperparameters::* integer,
                        Range range = Range::kAny)
      : name(name), integer(integer), range(range) {}
  constexpr ScalarInput(const char* name, Boolean Hyperparameters::* boolean)
      : name(name), boolean(boolean) {}

  // Sets it from memory that holds its type.
  TF_OPT_HOST_DEVICE void Read(const void* from, Hyperparameters* to) const {
    if (integer != nullptr) {
      to->*integer = ReadOnce(static_cast<const Integer*>(from));
    } else if (boolean != nullptr) {
      to->*boolean = ReadOnce(static_cast<const Boolean*>(from));
    } else {
      to->*number = ReadOnce(static_cast<const Real*>(from));
    }
  }

  // Where it lies, as such memory.
  const void* Address(const Hyperparameters& in) const {
    if (integer != nullptr) return &(in.*integer);
    if (boolean != nullptr) return &(in.*boolean);
    return &(in.*number);
  }

  TF_OPT_HOST_DEVICE Real Get(const Hyperparameters& from) const {
    if (integer != nullptr) return static_cast<Real>(from.*integer);
    if (boolean != nullptr) return static_cast<Real>(from.*boolean);
    return from.*number;
  }

  // A NaN is in no range but kAny.
  TF_OPT_HOST_DEVICE Boolean InRange(const Hyperparameters& from) const {
    const Real value = Get(from);
    switch (range) {
      case Range::kNonNegative:
        return value >= 0;
      case Range::kDecayRate:
        return value >= 0 && value < 1;
      case Range::kFraction:
        return value >= 0 && value <= 1;
      case Range::kPositive:
        return value >= 1;
      default:
        return true;
    }
  }

  const char* name = nullptr;
  Real Hyperparameters::* number = nullptr;
  Integer Hyperparameters::* integer = nullptr;
  Boolean Hyperparameters::* boolean = nullptr;
  Range range = Range::kAny;
};

// A type as a value: how a choice among rules reaches what uses them.
template <typename T>
struct TypeTag {
  using type = T;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_SCALAR_INPUT_H_
