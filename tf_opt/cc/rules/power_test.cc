// Against powl, whose long double has eleven bits more, and against powers that
// Python's decimal module computed with 80 digits.
#include "tf_opt/cc/rules/power.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kSmallest = std::numeric_limits<double>::min();
constexpr double kSubnormal = std::numeric_limits<double>::denorm_min();

struct Case {
  double base;
  double exponent;
};

// What steps take powers of, and numbers of every size.
std::vector<Case> ManyCases() {
  std::mt19937_64 random(7);
  const auto uniform = [&random](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  std::vector<Case> cases;
  for (const double beta : {0.5, 0.9, 0.99, 0.999, 0.9999, 0.999999}) {
    for (int step = 1; step <= 3000; ++step)
      cases.push_back({beta, 1.0 * step});
  }
  for (int step = 1; step <= 10000; ++step)
    cases.push_back({0.96, step * 4e-3});
  // Exact: rounding correctly gives the very number.
  for (int n = -1022; n <= 1023; ++n) cases.push_back({2, 1.0 * n});
  cases.push_back({1.5, 20});
  cases.push_back({10, 15});
  for (int i = 0; i < 20000; ++i) {
    // Up to the largest step that a double counts, with results around 1/2.
    const double step = std::floor(std::exp2(uniform(0, 53)));
    cases.push_back({1 - uniform(0, 1) / step, step});
    cases.push_back({uniform(0, 1), step});
    cases.push_back({std::exp2(uniform(-1021, 1023)), uniform(-2, 2)});
    cases.push_back({1 + uniform(-1e-9, 1e-9), uniform(-1e12, 1e12)});
  }
  return cases;
}

TEST(Power, IsRoundedCorrectlyButForNearTies) {
  int compared = 0;
  for (const auto& [base, exponent] : ManyCases()) {
    const long double exact =
        std::pow(static_cast<long double>(base), exponent);
    if (exact < kSmallest || exact > std::numeric_limits<double>::max()) {
      continue;
    }
    int binary_exponent;
    std::frexp(Power(base, exponent), &binary_exponent);
    const long double last_place = std::ldexp(1.0L, binary_exponent - 53);
    // powl is off by up to a unit of its own last place, 2^-11 of a double's.
    EXPECT_LE(std::abs(Power(base, exponent) - exact), 0.501L * last_place)
        << std::hexfloat << base << " to the power of " << exponent;
    ++compared;
  }
  EXPECT_GT(compared, 50000);
}

TEST(Power, HasTheseBits) {
  const struct {
    double base, exponent, power;
  } cases[] = {
      {0.9, 1823.0, 0x1.dd2b9d56435a2p-278},
      {0.9999, 1823.0, 0x1.aaac068cb36b9p-1},
      {0.999, 2.0, 0x1.fef9fcb0c026dp-1},
      {0.96, 0.004, 0x1.ffea9969757dbp-1},
      {0.96, 0x1.004189374bc6bp+4, 0x1.0a45b70c4f6e9p-1},
      {0x1.fffffffffffffp-1, 0x1p+53, 0x1.78b56362cef37p-2},
      {0.5, 1022.0, 0x1p-1022},
      {2.0, 0.5, 0x1.6a09e667f3bcdp+0},
      {3.0, -7.25, 0x1.6c4f4cfea1e98p-12},
      {1e300, 1.02, 0x1.6c8e5ca239078p+1016},
      {1e-300, 1.02, 0x1.6789e3750f743p-1017},
      {1.0000001, 1e9, 0x1.349445c228792p+144},
  };
  for (const auto& [base, exponent, power] : cases) {
    EXPECT_EQ(Power(base, exponent), power)
        << std::hexfloat << base << " to the power of " << exponent << " is "
        << Power(base, exponent);
  }
}

TEST(Power, AtTheEdgesIsWhatPowIs) {
  const double numbers[] = {0.0,   kSmallest, 0.25,      1.0,  2.0,        3.5,
                            1e300, 1e-300,    kInfinity, kNan, 1.0 - 1e-16};
  const double exponents[] = {0.0,  0.5,    1.0,    2.0,       -0.5,
                              -3.0, 1e300,  -1e300, kInfinity, -kInfinity,
                              kNan, 0x1p53, 2000,   -2000};
  for (const double base : numbers) {
    for (const double exponent : exponents) {
      SCOPED_TRACE(testing::Message() << base << " to " << exponent);
      const double expected = std::pow(base, exponent);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(Power(base, exponent)));
      } else if (expected == 0 || std::isinf(expected)) {
        EXPECT_EQ(Power(base, exponent), expected);
      } else {
        EXPECT_DOUBLE_EQ(Power(base, exponent), expected);
      }
    }
  }
}

TEST(Power, OfANegativeBaseIsNoNumber) {
  EXPECT_TRUE(std::isnan(Power(-2, 2)));
  EXPECT_TRUE(std::isnan(Power(-kInfinity, 0.5)));
  EXPECT_EQ(Power(-2, 0), 1);
}

TEST(Power, TakesSubnormalNumbersForZero) {
  EXPECT_EQ(Power(kSubnormal, 0.5), 0);
  EXPECT_EQ(Power(kSubnormal, -0.5), kInfinity);
  EXPECT_EQ(Power(0.0, kSubnormal), 1);
  EXPECT_EQ(Power(2, -1022.5), 0);
  EXPECT_GT(Power(2, -1021.5), 0);
}

#if defined(__SSE2__)
TEST(Power, DoesNotDependOnFlushingToZero) {
  std::vector<Case> cases = ManyCases();
  cases.push_back({kSubnormal, 0.5});
  cases.push_back({0.5, 1022.5});
  cases.push_back({0.5, kSubnormal});
  cases.push_back({0.5, kSmallest});
  std::vector<double> expected;
  for (const auto& [base, exponent] : cases) {
    expected.push_back(Power(base, exponent));
  }
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | kFlushToZero | kDenormalsAreZero);
  std::vector<double> flushed;
  for (const auto& [base, exponent] : cases) {
    flushed.push_back(Power(base, exponent));
  }
  _mm_setcsr(mode);
  EXPECT_EQ(flushed, expected);
}
#endif

}  // namespace
}  // namespace tf_opt
