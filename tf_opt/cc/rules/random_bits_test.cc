// The random bits of neighbours. (tests/test_stochastic_rounding.py has those
// of each element, and rounding by them.)
#include "tf_opt/cc/rules/random_bits.h"

#include <cstdint>

#include "gtest/gtest.h"

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

}  // namespace
}  // namespace tf_opt
