// base^exponent in double, with the same bits on every processor, with every
// compiler and C library, and on a GPU.
//
// pow() differs between versions of a C library and, in the last bit, between
// processors with and without fused multiply-adds. This function uses only + -
// * / and the bits of a double. Its error is at most 0.500001 units in the last
// place: it is correctly rounded except near ties.
//
// Every operation must be rounded to double: compile without contraction into
// fused multiply-adds (-ffp-contract=off, -fmad=false). Subnormal arguments and
// results become zero, because the bits may not depend on flush-to-zero mode.
#ifndef TF_OPT_CC_RULES_POWER_H_
#define TF_OPT_CC_RULES_POWER_H_

#include <cstdint>
#include <cstring>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {
namespace power {

// Unevaluated sum of two doubles, high rounded to nearest: about 105 bits.
struct DoubleDouble {
  double high;
  double low;
};

// The exact sum, for |a| >= |b| (Dekker).
TF_OPT_HOST_DEVICE constexpr DoubleDouble FastTwoSum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// The exact sum (Knuth).
TF_OPT_HOST_DEVICE constexpr DoubleDouble TwoSum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// Upper half of a number's digits (Veltkamp).
TF_OPT_HOST_DEVICE constexpr double UpperHalf(double a) {
  const double scaled = 134217729.0 * a;  // 2^27 + 1.
  return scaled - (scaled - a);
}

// The exact product (Dekker).
TF_OPT_HOST_DEVICE constexpr DoubleDouble TwoProduct(double a, double b) {
  const double product = a * b;
  const double a_high = UpperHalf(a), a_low = a - a_high;
  const double b_high = UpperHalf(b), b_low = b - b_high;
  return {product,
          ((a_high * b_high - product) + a_high * b_low + a_low * b_high) +
              a_low * b_low};
}

TF_OPT_HOST_DEVICE constexpr DoubleDouble Add(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble sum = TwoSum(a.high, b.high);
  return FastTwoSum(sum.high, sum.low + (a.low + b.low));
}

TF_OPT_HOST_DEVICE constexpr DoubleDouble Multiply(DoubleDouble a,
                                                   DoubleDouble b) {
  const DoubleDouble product = TwoProduct(a.high, b.high);
  return FastTwoSum(product.high,
                    product.low + (a.high * b.low + a.low * b.high));
}

TF_OPT_HOST_DEVICE constexpr DoubleDouble Multiply(DoubleDouble a, double b) {
  return Multiply(a, DoubleDouble{b, 0.0});
}

TF_OPT_HOST_DEVICE constexpr DoubleDouble Divide(DoubleDouble a,
                                                 DoubleDouble b) {
  const double quotient = a.high / b.high;
  const DoubleDouble product = Multiply(b, quotient);
  const double rest = (a.high - product.high) - product.low + a.low;
  return FastTwoSum(quotient, rest / b.high);
}

// ln(2); the second number is the first's rounding error.
constexpr DoubleDouble kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

// The coefficients of a series: 1 / first, 1 / (first + stride), ...
template <int kCount>
struct Reciprocals {
  TF_OPT_HOST_DEVICE constexpr Reciprocals(int first, int stride) {
    for (int i = 0; i < kCount; ++i) {
      values[i] = Divide({1.0, 0.0}, {1.0 * first + stride * i, 0.0});
    }
  }

  DoubleDouble values[kCount] = {};
};

// Each term of the series below is smaller than the one before. A double is
// precise enough from some term on.

// 2 artanh(s) = 2 (s + s^3 / 3 + s^5 / 5 + ...), for |s| < 0.172.
TF_OPT_HOST_DEVICE inline DoubleDouble TwiceArtanh(DoubleDouble s) {
  constexpr int kTerms = 18, kPreciseTerms = 6;
  constexpr Reciprocals<kTerms> kOdd(1, 2);
  const DoubleDouble square = Multiply(s, s);
  double tail = 0.0;
  for (int n = kTerms - 1; n >= kPreciseTerms; --n) {
    tail = tail * square.high + kOdd.values[n].high;
  }
  DoubleDouble sum = {tail, 0.0};
  for (int n = kPreciseTerms - 1; n >= 0; --n) {
    sum = Add(Multiply(sum, square), kOdd.values[n]);
  }
  const DoubleDouble result = Multiply(sum, s);
  return {2.0 * result.high, 2.0 * result.low};
}

// e^x = 1 + x (1 + x/2 (1 + x/3 (...))), for |x| < 0.35.
TF_OPT_HOST_DEVICE inline DoubleDouble Exp(DoubleDouble x) {
  constexpr int kTerms = 19, kPreciseTerms = 8;
  constexpr Reciprocals<kTerms> kAll(1, 1);
  double tail = 1.0;
  for (int n = kTerms - 1; n >= kPreciseTerms; --n) {
    tail = 1.0 + tail * (x.high * kAll.values[n].high);
  }
  DoubleDouble sum = {tail, 0.0};
  for (int n = kPreciseTerms - 1; n >= 0; --n) {
    sum = Add({1.0, 0.0}, Multiply(sum, Multiply(x, kAll.values[n])));
  }
  return sum;
}

TF_OPT_HOST_DEVICE inline uint64_t BitsOf(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

TF_OPT_HOST_DEVICE inline double FromBits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

constexpr int kFractionBits = 52;
constexpr int kExponentBias = 1023;

// ln(x), of a normal number > 0 other than 1.
TF_OPT_HOST_DEVICE inline DoubleDouble Log(double x) {
  // x = 2^k m, with m between sqrt(1/2) and sqrt(2).
  const uint64_t bits = BitsOf(x);
  const uint64_t fraction = bits & ((uint64_t{1} << kFractionBits) - 1);
  int k = static_cast<int>(bits >> kFractionBits) - kExponentBias;
  double m = FromBits(fraction | uint64_t{kExponentBias} << kFractionBits);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++k;
  }
  const DoubleDouble log_m =
      TwiceArtanh(Divide(TwoSum(m, -1.0), TwoSum(m, 1.0)));
  return k == 0 ? log_m : Add(Multiply(kLn2, k), log_m);
}

// e^x, for |x| < 2^20.
TF_OPT_HOST_DEVICE inline double ExpRounded(DoubleDouble x) {
  // x = n ln(2) + r, with |r| <= ln(2) / 2.
  const double shifted = x.high / kLn2.high + 0x1.8p52;
  const double n = shifted - 0x1.8p52;  // To the nearest integer.
  const DoubleDouble e = Exp(Add(x, Multiply(kLn2, -n)));
  // The sum of both parts is rounded where a double's last place is, and then
  // the exponent is only written.
  const double rounded = e.high + e.low;
  const int64_t exponent =
      static_cast<int64_t>(BitsOf(rounded) >> kFractionBits) +
      static_cast<int64_t>(n);
  if (exponent <= 0) return 0.0;
  if (exponent > 2 * kExponentBias) return __builtin_huge_val();
  return FromBits(
      BitsOf(rounded) +
      (static_cast<uint64_t>(static_cast<int64_t>(n)) << kFractionBits));
}

}  // namespace power

// For the scalars of a step. As pow(), but a negative base gives NaN.
TF_OPT_HOST_DEVICE inline double Power(double base, double exponent) {
  constexpr double kSmallestNormal = 0x1p-1022;
  // Beyond this exponent every power of a number other than 1 is zero or
  // infinite.
  constexpr double kLargestExponent = 0x1p64;
  const double infinity = __builtin_huge_val();
  const double size = exponent < 0 ? -exponent : exponent;
  if (base == 1 || size < kSmallestNormal) return 1.0;
  if (!(base > -kSmallestNormal && size <= infinity)) return __builtin_nan("");
  const bool grows = (base > 1) == (exponent > 0);
  if (base < kSmallestNormal || base == infinity || size > kLargestExponent) {
    return grows ? infinity : 0.0;
  }
  const power::DoubleDouble log = power::Log(base);
  // Neither result needs more, and no product overflows.
  if (size * (log.high < 0 ? -log.high : log.high) > 0x1p10) {
    return grows ? infinity : 0.0;
  }
  return power::ExpRounded(power::Multiply(log, exponent));
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_POWER_H_
