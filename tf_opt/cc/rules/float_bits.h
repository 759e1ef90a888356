// float32 as bits, and rounded to 16 of them: to the nearest or, by random
// bits, up or down such that the mean is right. Select-only forms without a
// branch, so that a compiler can vectorize them; no arithmetic on what could be
// subnormal, so that the flush-to-zero mode changes nothing.
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

// Towards zero, of what is between 0 and 2^31.
TF_OPT_RULE_INLINE uint32_t Truncated(float value) {
  return static_cast<uint32_t>(static_cast<int32_t>(value));
}

// The bits of a bfloat16, a float32 without its lower half: to nearest even.
TF_OPT_RULE_INLINE uint32_t BFloat16Nearest(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  // Rounding could carry a NaN's payload into infinity; set the quiet bit.
  const uint32_t nan = (bits >> 16) | 0x40;
  return Select((bits & 0x7fffffff) > 0x7f800000, nan, rounded);
}

// The same of what is no NaN, or the one of CanonicalNan(): half of the work.
TF_OPT_RULE_INLINE uint32_t BFloat16NearestOfCanonical(float value) {
  const uint32_t bits = BitsOf(value);
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

// The bits of an IEEE binary16, to nearest even. Infinities, NaNs and
// subnormals stay what they are, whatever the flush-to-zero mode.
TF_OPT_RULE_INLINE uint32_t HalfNearest(float value) {
  constexpr uint32_t kInfinity = 255u << 23;
  constexpr uint32_t kOverflow = (127u + 16u) << 23;  // 2^16.
  constexpr uint32_t kSmallestNormal = 113u << 23;    // 2^-14.
  constexpr uint32_t kHalf = 126u << 23;              // 0.5.
  const uint32_t bits = BitsOf(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  // The last bit kept decides a tie: to even. A carry may make it infinite.
  const uint32_t normal =
      (magnitude - ((127u - 15u) << 23) + 0xfff + ((magnitude >> 13) & 1)) >>
      13;
  // Adding 0.5 lines a subnormal's bits up at the low end, rounded by the add.
  const uint32_t subnormal = BitsOf(FloatOf(magnitude) + 0.5f) - kHalf;
  const uint32_t special = Select(magnitude > kInfinity, 0x7e00u, 0x7c00);
  const uint32_t result =
      Select(magnitude >= kOverflow, special,
             Select(magnitude < kSmallestNormal, subnormal, normal));
  return result | ((bits >> 16) & 0x8000);
}

// With 16 random bits: up with the probability that the lower half is of the
// distance. (Behind the largest finite number up is to infinity, as it may be
// to nearest.) A NaN must be that of CanonicalNan().
TF_OPT_RULE_INLINE uint32_t BFloat16AtRandom(float value, uint32_t random) {
  return (BitsOf(value) + random) >> 16;
}

// The same for an IEEE binary16, but that above its largest finite number,
// which isn't that large, it rounds to nearest: with the infinity for a
// neighbour no mean is right.
TF_OPT_RULE_INLINE uint32_t HalfAtRandom(float value, uint32_t random) {
  constexpr uint32_t kInfinity = 255u << 23;
  constexpr uint32_t kLargest = 0x477fe000;          // 65504.
  constexpr uint32_t kNoLongerLargest = 0x477ff000;  // 65520, half way up.
  constexpr uint32_t kSmallestNormal = 113u << 23;   // 2^-14.
  const uint32_t bits = BitsOf(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t finite = Select(magnitude < kNoLongerLargest, 0x7bffu, 0x7c00);
  const uint32_t large = Select(magnitude > kInfinity, 0x7e00u, finite);
  // 13 bits go.
  const uint32_t normal =
      ((magnitude + (random >> 3)) >> 13) - ((127u - 15u) << 10);
  // All have the same distance, 2^-24; with 16 more bits an integer.
  const uint32_t small = Select(magnitude < kSmallestNormal, magnitude, 0);
  const uint32_t fixed = Truncated(FloatOf(small) * 0x1p40f);
  const uint32_t subnormal = (fixed + random) >> 16;
  const uint32_t rounded =
      Select(magnitude > kLargest, large,
             Select(magnitude < kSmallestNormal, subnormal, normal));
  return rounded | ((bits >> 16) & 0x8000);
}

// To the nearest bfloat16; of a float64 by way of float32.
TF_OPT_RULE_INLINE float AsBFloat16(float value) {
  return FloatOf(BFloat16Nearest(value) << 16);
}
TF_OPT_RULE_INLINE double AsBFloat16(double value) {
  return AsBFloat16(static_cast<float>(value));
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_FLOAT_BITS_H_
