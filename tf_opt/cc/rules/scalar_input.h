// Scalar inputs of a step as data: the op's name for each, its place in a
// struct and its range. So they can be read and checked in the memory of a host
// or of a device.
#ifndef TF_OPT_CC_RULES_SCALAR_INPUT_H_
#define TF_OPT_CC_RULES_SCALAR_INPUT_H_

#include <cstdint>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Reads a number in memory that another library may share and write to at any
// time: the value that is checked must be the one that is used.
template <typename N>
TF_OPT_HOST_DEVICE N ReadOnce(const N* from) {
  return *static_cast<const volatile N*>(from);
}

enum class Range {
  kAny,
  kNonNegative,
  kDecayRate,  // For a moving average: [0, 1).
  kFraction,   // In [0, 1].
  // A step, because bias corrections divide by zero at 0, or a divisor.
  kPositive,
};

// The range as an error names it.
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

// A number in Hyperparameters: a double, an int64_t or a bool.
template <typename Hyperparameters>
struct ScalarInput {
  constexpr ScalarInput() = default;
  constexpr ScalarInput(const char* name, double Hyperparameters::* number,
                        Range range = Range::kAny)
      : name(name), number(number), range(range) {}
  constexpr ScalarInput(const char* name, int64_t Hyperparameters::* integer,
                        Range range = Range::kAny)
      : name(name), integer(integer), range(range) {}
  constexpr ScalarInput(const char* name, bool Hyperparameters::* boolean)
      : name(name), boolean(boolean) {}

  // Sets the number from memory that holds its type.
  TF_OPT_HOST_DEVICE void Read(const void* from, Hyperparameters* to) const {
    if (integer != nullptr) {
      to->*integer = ReadOnce(static_cast<const int64_t*>(from));
    } else if (boolean != nullptr) {
      to->*boolean = ReadOnce(static_cast<const bool*>(from));
    } else {
      to->*number = ReadOnce(static_cast<const double*>(from));
    }
  }

  // Address of the number, as such memory.
  const void* Address(const Hyperparameters& in) const {
    if (integer != nullptr) return &(in.*integer);
    if (boolean != nullptr) return &(in.*boolean);
    return &(in.*number);
  }

  TF_OPT_HOST_DEVICE double Get(const Hyperparameters& from) const {
    if (integer != nullptr) return static_cast<double>(from.*integer);
    if (boolean != nullptr) return static_cast<double>(from.*boolean);
    return from.*number;
  }

  // A NaN is in no range except kAny.
  TF_OPT_HOST_DEVICE bool InRange(const Hyperparameters& from) const {
    const double value = Get(from);
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
  double Hyperparameters::* number = nullptr;
  int64_t Hyperparameters::* integer = nullptr;
  bool Hyperparameters::* boolean = nullptr;
  Range range = Range::kAny;
};

// Scalars of a step for one variable.
struct VariableInputs {
  // Returns whether `number` is an integer, as it must be.
  TF_OPT_HOST_DEVICE bool HasNumber() const {
    return number == static_cast<double>(whole_number());
  }
  // Valid even if `number` is no integer: a device can't return an error.
  TF_OPT_HOST_DEVICE int64_t whole_number() const {
    const bool fits = number >= -0x1p53 && number <= 0x1p53;
    return fits ? static_cast<int64_t>(number) : 0;
  }

  double weight_decay = 0.0;
  double learning_rate_factor = 1.0;
  double gradient_factor = 1.0;
  // Number of the variable, for its random bits.
  double number = 0.0;
};

// A type as a value: passes a chosen rule to a generic function.
template <typename T>
struct TypeTag {
  using type = T;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_SCALAR_INPUT_H_
