// float32 as bits, rounded to 16 bits: to nearest, or by random bits up or down
// so that the mean is right. All functions select instead of branching, so that
// compilers vectorize them, and do no arithmetic on subnormal numbers, so that
// flush-to-zero mode changes nothing.
#ifndef TF_OPT_CC_RULES_FLOAT_BITS_H_
#define TF_OPT_CC_RULES_FLOAT_BITS_H_

#include <cstdint>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

TF_OPT_RULE_INLINE uint32_t BitsOf(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

TF_OPT_RULE_INLINE float FloatOf(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

// Rounds a number in [0, 2^31) towards zero.
TF_OPT_RULE_INLINE uint32_t Truncated(float value) {
  return static_cast<uint32_t>(static_cast<int32_t>(value));
}

// Bits of a bfloat16, a float32 without its lower half, rounded to nearest
// even. A NaN becomes CanonicalNan(), whose payload rounding doesn't carry into
// infinity.
TF_OPT_RULE_INLINE uint32_t BFloat16Nearest(float value) {
  const uint32_t bits = BitsOf(CanonicalNan(value));
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

// Bits of an IEEE binary16, rounded to nearest even. Keeps infinities, NaNs and
// subnormals, whatever the flush-to-zero mode.
TF_OPT_RULE_INLINE uint32_t HalfNearest(float value) {
  constexpr uint32_t kInfinity = 255u << 23;
  constexpr uint32_t kOverflow = (127u + 16u) << 23;  // 2^16.
  constexpr uint32_t kSmallestNormal = 113u << 23;    // 2^-14.
  constexpr uint32_t kHalf = 126u << 23;              // 0.5.
  const uint32_t bits = BitsOf(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  // The last bit kept decides ties, to even. A carry may make it infinite.
  const uint32_t normal =
      (magnitude - ((127u - 15u) << 23) + 0xfff + ((magnitude >> 13) & 1)) >>
      13;
  // Adding 0.5 aligns a subnormal's bits at the low end, rounded by the
  // addition.
  const uint32_t subnormal = BitsOf(FloatOf(magnitude) + 0.5f) - kHalf;
  const uint32_t special = Select(magnitude > kInfinity, 0x7e00u, 0x7c00);
  const uint32_t result =
      Select(magnitude >= kOverflow, special,
             Select(magnitude < kSmallestNormal, subnormal, normal));
  return result | ((bits >> 16) & 0x8000);
}

// Rounds by 16 random bits: up with a probability equal to the dropped
// fraction. (Above the largest finite number, up is infinity, as in rounding to
// nearest.) A NaN must be CanonicalNan().
TF_OPT_RULE_INLINE uint32_t BFloat16AtRandom(float value, uint32_t random) {
  return (BitsOf(value) + random) >> 16;
}

// The same for an IEEE binary16. Above the largest finite number it rounds to
// nearest: no mean is right next to infinity.
TF_OPT_RULE_INLINE uint32_t HalfAtRandom(float value, uint32_t random) {
  constexpr uint32_t kInfinity = 255u << 23;
  constexpr uint32_t kLargest = 0x477fe000;          // 65504.
  constexpr uint32_t kNoLongerLargest = 0x477ff000;  // 65520, halfway to 2^16.
  constexpr uint32_t kSmallestNormal = 113u << 23;   // 2^-14.
  const uint32_t bits = BitsOf(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t finite = Select(magnitude < kNoLongerLargest, 0x7bffu, 0x7c00);
  const uint32_t large = Select(magnitude > kInfinity, 0x7e00u, finite);
  // Drops 13 bits.
  const uint32_t normal =
      ((magnitude + (random >> 3)) >> 13) - ((127u - 15u) << 10);
  // Subnormals have one distance, 2^-24; times 2^16 it is an integer.
  const uint32_t small = Select(magnitude < kSmallestNormal, magnitude, 0);
  const uint32_t fixed = Truncated(FloatOf(small) * 0x1p40f);
  const uint32_t subnormal = (fixed + random) >> 16;
  const uint32_t rounded =
      Select(magnitude > kLargest, large,
             Select(magnitude < kSmallestNormal, subnormal, normal));
  return rounded | ((bits >> 16) & 0x8000);
}

// Rounds to the nearest bfloat16; a float64 is rounded to float32 first.
TF_OPT_RULE_INLINE float AsBFloat16(float value) {
  return FloatOf(BFloat16Nearest(value) << 16);
}
TF_OPT_RULE_INLINE double AsBFloat16(double value) {
  return AsBFloat16(static_cast<float>(value));
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_FLOAT_BITS_H_
