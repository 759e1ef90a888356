// Scalar inputs of a step as data: the op's name for each, its place in a
// struct and its range. So they can be read and checked in the memory of a host
// or of a device.
#ifndef TF_OPT_CC_RULES_SCALAR_INPUT_H_
#define TF_OPT_CC_RULES_SCALAR_INPUT_H_

#include <cstddef>
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

// A NaN is in no range except kAny.
TF_OPT_HOST_DEVICE inline bool IsInRange(Range range, double value) {
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

enum class ScalarType { kDouble, kInt64, kBool };

constexpr ScalarType ScalarTypeOf(double*) { return ScalarType::kDouble; }
constexpr ScalarType ScalarTypeOf(int64_t*) { return ScalarType::kInt64; }
constexpr ScalarType ScalarTypeOf(bool*) { return ScalarType::kBool; }

// A member of a struct of numbers, which callers pass without its type.
struct ScalarInput {
  // Its address in a struct.
  TF_OPT_HOST_DEVICE void* In(void* numbers) const {
    return static_cast<char*>(numbers) + offset;
  }

  // Sets the number from memory that holds its type.
  TF_OPT_HOST_DEVICE void Read(const void* from, void* numbers) const {
    void* const to = In(numbers);
    if (type == ScalarType::kInt64) {
      *static_cast<int64_t*>(to) = ReadOnce(static_cast<const int64_t*>(from));
    } else if (type == ScalarType::kBool) {
      *static_cast<bool*>(to) = ReadOnce(static_cast<const bool*>(from));
    } else {
      *static_cast<double*>(to) = ReadOnce(static_cast<const double*>(from));
    }
  }

  TF_OPT_HOST_DEVICE double Get(const void* numbers) const {
    const void* const from = static_cast<const char*>(numbers) + offset;
    return type == ScalarType::kInt64  ? *static_cast<const int64_t*>(from)
           : type == ScalarType::kBool ? *static_cast<const bool*>(from)
                                       : *static_cast<const double*>(from);
  }

  const char* name = nullptr;
  ScalarType type = ScalarType::kDouble;
  std::size_t offset = 0;
  Range range = Range::kAny;
};

// The member of a struct as a ScalarInput, perhaps with its range.
#define TF_OPT_SCALAR(Numbers, member, ...)                                  \
  ScalarInput {                                                              \
    #member, ScalarTypeOf(static_cast<decltype(Numbers::member)*>(nullptr)), \
        offsetof(Numbers, member), __VA_ARGS__                               \
  }

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

// The op's inputs with these, in the same order: one number for all variables
// or a vector with one for each.
inline constexpr const char* kPerVariableInputs[] = {
    "weight_decay", "learning_rate_factors", "gradient_factors",
    "variable_numbers"};

// An input of the op that may be a variable, and the scalar that it replaces.
struct NumberVariable {
  const char* name;
  const char* scalar;
};
inline constexpr NumberVariable kCounter = {"counter", "step"};
inline constexpr NumberVariable kRate = {"rate", "learning_rate"};

// One of them, in the device's memory.
struct PerVariable {
  TF_OPT_HOST_DEVICE double operator[](int64_t i) const {
    return ReadOnce(numbers + (one_for_all ? 0 : i));
  }

  const double* numbers = nullptr;
  bool one_for_all = false;
};

// All of them.
struct VariableVectors {
  TF_OPT_HOST_DEVICE VariableInputs operator[](int64_t i) const {
    return {inputs[0][i], inputs[1][i], inputs[2][i], inputs[3][i]};
  }

  PerVariable inputs[4];
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_SCALAR_INPUT_H_
