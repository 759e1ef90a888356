// Converts blocks of 16-bit floats to float32 and back, vectorized for the
// instruction set of the including file. Rounds to nearest even and keeps
// infinities, NaNs and subnormals, whatever the flush-to-zero mode.
#ifndef TF_OPT_CC_ENGINES_FLOAT_CONVERSION_INL_H_
#define TF_OPT_CC_ENGINES_FLOAT_CONVERSION_INL_H_

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include <cstdint>

#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/float_bits.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// What has no 16 bits stays as it is.
template <typename V>
inline V Widen(V value) {
  return value;
}
template <typename T>
inline T Narrow(ComputeType<T> value) {
  return value;
}

inline float Widen(BFloat16 value) {
  return FloatOf(static_cast<uint32_t>(value.bits) << 16);
}

template <>
inline BFloat16 Narrow(float value) {
  return {static_cast<uint16_t>(BFloat16Nearest(value))};
}

// Select-only, without a branch: the compiler vectorizes it.
inline float Widen(Half value) {
  constexpr uint32_t kExponent = 0x7c00u << 13;
  constexpr uint32_t kSmallestNormal = 113u << 23;  // 2^-14 as float32.
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  const uint32_t shifted = static_cast<uint32_t>(value.bits & 0x7fff) << 13;
  const uint32_t exponent = shifted & kExponent;
  const uint32_t rebiased = shifted + ((127u - 15u) << 23);
  // Infinity and NaN: the exponent field becomes all ones.
  const uint32_t special = rebiased + ((128u - 16u) << 23);
  // Zero and subnormal: renormalized by a subtraction of normal numbers.
  const uint32_t subnormal =
      BitsOf(FloatOf(rebiased + (1u << 23)) - FloatOf(kSmallestNormal));
  const uint32_t magnitude =
      exponent == kExponent ? special : (exponent == 0 ? subnormal : rebiased);
  return FloatOf(magnitude | sign);
}

template <>
inline Half Narrow(float value) {
  return {static_cast<uint16_t>(HalfNearest(value))};
}

template <typename T, typename V>
inline void WidenBlock(const T* source, int n, V* target) {
  for (int i = 0; i < n; ++i) target[i] = Widen(source[i]);
}

template <typename V, typename T>
inline void NarrowBlock(const V* source, int n, T* target) {
  for (int i = 0; i < n; ++i) target[i] = Narrow<T>(source[i]);
}

inline void WidenBlock(const Half* source, int n, float* target) {
  int i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i bits =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
    _mm256_storeu_ps(target + i, _mm256_cvtph_ps(bits));
  }
#endif
  for (; i < n; ++i) target[i] = Widen(source[i]);
}

inline void NarrowBlock(const float* source, int n, Half* target) {
  int i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i bits =
        _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i), bits);
  }
#endif
  for (; i < n; ++i) target[i] = Narrow<Half>(source[i]);
}

// Returns elements in the arithmetic type: the array itself or a widened copy.
template <typename T>
inline __attribute__((always_inline)) const ComputeType<T>* Widened(
    const T* values, int n, ComputeType<T>* copy) {
  if constexpr (sizeof(T) == sizeof(*copy)) {
    return values;
  } else {
    WidenBlock(values, n, copy);
    return copy;
  }
}

}  // namespace
}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_FLOAT_CONVERSION_INL_H_
