// Rounding by random bits: to a neighbour, with the right probability; and the
// bits of neighbours and of an element's streams.
#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/random_bits.h"

namespace tf_opt {
namespace {

TEST(RandomBits, OfNeighboursAreThoseOfEach) {
  const RandomKey key = RandomKey().With(-5).With(7).With(1).Stream(4);
  // Behind 2^33 elements a word's number has more than 32 bits.
  for (const int64_t first : {int64_t{0}, int64_t{641}, int64_t{1} << 33}) {
    const RandomWords words(key, first);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(words.GoOn(i));
      const int64_t even = first / 2 * 2 + 2 * i;
      const auto stream = [&](uint32_t bits) {
        return bits * key.factor() % (1 << 16);
      };
      EXPECT_EQ(stream(words[i] & 0xffff), RandomBitsOf(key, even));
      EXPECT_EQ(stream(words[i] >> 16), RandomBitsOf(key, even + 1));
    }
  }
  EXPECT_NE(RandomWords(key, int64_t{1} << 33)[0], RandomWords(key, 0)[0]);
  const RandomWords last(key, (int64_t{1} << 33) - 2);
  EXPECT_TRUE(last.GoOn(0));
  EXPECT_FALSE(last.GoOn(1));
}

// Of all 2^16 draws: how often two streams of an element are both rounded up,
// by any parts of the spacing, is the product of how often each is.
TEST(RandomBits, OfTheStreamsOfAnElementAreIndependent) {
  constexpr int kParts = 64;
  for (int distance = 1; distance < 8; ++distance) {
    const uint32_t factor = RandomKey().Stream(distance).factor();
    std::vector<std::vector<int>> both(kParts + 1,
                                       std::vector<int>(kParts + 1));
    for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
      const uint32_t other = bits * factor % (1 << 16);
      ++both[bits * kParts / (1 << 16) + 1][other * kParts / (1 << 16) + 1];
    }
    for (int a = 1; a <= kParts; ++a) {
      for (int b = 1; b <= kParts; ++b) {
        both[a][b] += both[a - 1][b] + both[a][b - 1] - both[a - 1][b - 1];
        EXPECT_NEAR(both[a][b] / 65536.0, 1.0 * a * b / kParts / kParts, 3e-4)
            << distance;
      }
    }
  }
}

double BFloat16Value(uint32_t bits) { return FloatOf(bits << 16); }

double HalfValue(uint32_t bits) {
  const int exponent = bits >> 10 & 31;
  const double magnitude =
      exponent == 31  ? (bits & 1023 ? NAN : INFINITY)
      : exponent == 0 ? std::ldexp(bits & 1023, -24)
                      : std::ldexp(1024 + (bits & 1023), exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

// Over all random bits.
template <typename Round, typename ValueOf>
void ExpectTheMean(float x, const Round& round, const ValueOf& value_of) {
  double mean = 0, lowest = INFINITY, highest = -INFINITY;
  for (uint32_t random = 0; random < 1 << 16; ++random) {
    const double rounded = value_of(round(x, random));
    mean += rounded / (1 << 16);
    lowest = std::fmin(lowest, rounded);
    highest = std::fmax(highest, rounded);
  }
  const double distance = highest - lowest;
  EXPECT_LE(lowest, x);
  EXPECT_GE(highest, x);
  // Nothing between them.
  const uint32_t down = round(static_cast<float>(lowest), 0xffff);
  EXPECT_EQ(value_of(down), lowest) << "what fits stays as it is";
  if (distance > 0) {
    const double next = value_of(x > 0 ? down + 1 : down - 1);
    EXPECT_EQ(next, highest) << x;
  }
  EXPECT_NEAR(mean, x, distance * 0x1p-16) << x;
}

TEST(RoundingAtRandom, HasTheRightMean) {
  for (const double x :
       {1.0, 1.001, 1.0039, -1.3, 3.1415926, 1e-3, -2e-20, 6e4, 1e-40, 0.0}) {
    ExpectTheMean(x, BFloat16AtRandom, BFloat16Value);
  }
  // The last ones are subnormal, or become so.
  for (const double x : {1.0, 1.0001, -1.3, 3.1415926, 1e-3, 65503.0, -7e-5,
                         6.1035e-5, 6.1e-5, 1e-6, -3e-8, 1e-9, 0.0}) {
    ExpectTheMean(x, HalfAtRandom, HalfValue);
  }
}

TEST(RoundingAtRandom, LeavesWhatIsNoNumberAndRoundsTheLargestHalfToNearest) {
  for (const uint32_t random : {0u, 1u, 0x8000u, 0xffffu}) {
    EXPECT_EQ(BFloat16AtRandom(INFINITY, random), 0x7f80);
    EXPECT_EQ(BFloat16AtRandom(-INFINITY, random), 0xff80);
    EXPECT_EQ(BFloat16AtRandom(__builtin_nanf(""), random), 0x7fc0);
    EXPECT_EQ(BFloat16AtRandom(FloatOf(0x7f7f0000), random), 0x7f7f);
    EXPECT_EQ(HalfAtRandom(INFINITY, random), 0x7c00);
    EXPECT_EQ(HalfAtRandom(-INFINITY, random), 0xfc00);
    EXPECT_EQ(HalfAtRandom(__builtin_nanf(""), random), 0x7e00);
    EXPECT_EQ(HalfAtRandom(65519, random), 0x7bff);
    EXPECT_EQ(HalfAtRandom(-65520, random), 0xfc00);
    EXPECT_EQ(HalfAtRandom(1e30f, random), 0x7c00);
  }
}

}  // namespace
}  // namespace tf_opt
