// How a variable's elements lie in memory, and what they are computed in.
#ifndef TF_OPT_CC_ENGINES_STORAGE_TYPES_H_
#define TF_OPT_CC_ENGINES_STORAGE_TYPES_H_

#include <cstdint>
#include <type_traits>

#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// IEEE binary16 and bfloat16 as bare bits: the engines depend on no library.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// Whether a type is one of them.
template <typename T>
constexpr bool kHas16Bits = sizeof(T) == 2;

// Whether two of the same type have the same value. Zeros of both signs do, and
// so do all NaNs, of which processors round a float32's to other bits.
template <typename T>
TF_OPT_RULE_INLINE bool HaveSameValue(T a, T b) {
  constexpr int kInfinity = std::is_same<T, Half>::value ? 0x7c00 : 0x7f80;
  const int of_a = a.bits & 0x7fff, of_b = b.bits & 0x7fff;
  return a.bits == b.bits || (of_a | of_b) == 0 ||
         (of_a > kInfinity && of_b > kInfinity);
}

// The bits of the NaN that engines write (scalar_math.h's, narrowed).
constexpr uint16_t kHalfNan = 0x7e00;
constexpr uint16_t kBFloat16Nan = 0x7fc0;

// Returns an element, rounded by its random bits.
TF_OPT_RULE_INLINE BFloat16 RoundAtRandom(float value, uint32_t random,
                                          BFloat16) {
  return {static_cast<uint16_t>(BFloat16AtRandom(value, random))};
}
TF_OPT_RULE_INLINE Half RoundAtRandom(float value, uint32_t random, Half) {
  return {static_cast<uint16_t>(HalfAtRandom(value, random))};
}
// What is stored as it is.
template <typename V, typename Random>
TF_OPT_RULE_INLINE V RoundAtRandom(V value, Random, V) {
  return value;
}

// Moments and arithmetic are float32 for every variable type but float64: in
// bfloat16, 0.999 is 1 and an Adam step is exactly zero.
template <typename T>
using ComputeType =
    std::conditional_t<std::is_same<T, double>::value, double, float>;

// The array of one operand and variable; absent if null.
struct StepArray {
  void* data = nullptr;
  StateType type = StateType::kArithmetic;  // Of state.
};

// Of an element of state whose arithmetic is in V, in bytes.
template <typename V>
TF_OPT_RULE_INLINE constexpr int StateSize(StateType type) {
  return type == StateType::kArithmetic ? sizeof(V)
         : type == StateType::kFloat    ? sizeof(float)
                                        : sizeof(BFloat16);
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_STORAGE_TYPES_H_
