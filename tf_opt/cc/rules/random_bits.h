// Random bits for rounding; docs/random-bits.md has the formulas. They need no
// state and are the same on every device and in any order.
//
// The key of a variable is made by the finalizer of SplitMix64 (Steele, Lea &
// Flood 2014, "Fast Splittable Pseudorandom Number Generators"). The constants
// of the multiplications in 32 bits are those that Ettinger's "hash-prospector"
// found to mix best.
#ifndef TF_OPT_CC_RULES_RANDOM_BITS_H_
#define TF_OPT_CC_RULES_RANDOM_BITS_H_

#include <cstdint>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Its first seven powers are all among the multipliers whose lattices have no
// short vectors.
inline constexpr uint32_t kRandomStreamFactor = 51517;

// A key of several numbers, each of which changes all of its bits.
class RandomKey {
 public:
  TF_OPT_RULE_INLINE RandomKey With(int64_t number) const {
    uint64_t z = (key_ ^ static_cast<uint64_t>(number)) + 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    RandomKey key;
    key.key_ = z ^ (z >> 31);
    return key;
  }

  // Key of the stream with this number, an operand's.
  TF_OPT_RULE_INLINE RandomKey Stream(int number) const {
    RandomKey key = *this;
    for (int k = 0; k < number; ++k) {
      key.factor_ = key.factor_ * kRandomStreamFactor & 0xffff;
    }
    return key;
  }

  // Factor of the stream's bits over the shared ones, modulo 2^16.
  TF_OPT_RULE_INLINE uint32_t factor() const { return factor_; }

  TF_OPT_RULE_INLINE uint32_t low() const {
    return static_cast<uint32_t>(key_);
  }
  TF_OPT_RULE_INLINE uint32_t high() const {
    return static_cast<uint32_t>(key_ >> 32);
  }

 private:
  uint64_t key_ = 0;
  uint32_t factor_ = 1;
};

// Words of neighbouring elements, which all streams share. A word has the 16
// bits of an even element in its lower half and those of the next element in
// its upper half.
class RandomWords {
 public:
  // Starts at the word of this element.
  TF_OPT_RULE_INLINE RandomWords(const RandomKey& key, uint64_t element)
      : word_(static_cast<uint32_t>(element >> 1)),
        first_(key.low() + word_),
        key_(key.high() + static_cast<uint32_t>(element >> 33) * 0x9e3779b9) {}

  // Returns whether the i-th word has the same upper half of its number as the
  // first, which all words in one call must have.
  TF_OPT_RULE_INLINE bool GoOn(uint32_t i) const { return word_ + i >= word_; }

  // The i-th word.
  TF_OPT_RULE_INLINE uint32_t operator[](uint32_t i) const {
    uint32_t x = first_ + i;
    x = (x ^ (x >> 16)) * 0x21f0aaad;
    x = ((x ^ (x >> 15)) + key_) * 0xd35a2d97;
    return x ^ (x >> 15);
  }

 private:
  uint32_t word_;  // Lower half of the first word's number.
  uint32_t first_;
  uint32_t key_;
};

// What decides how an operand is rounded: random bits, or the nearest value.
struct RoundingBits {
  bool at_random = false;
  RandomKey key;
};

// Bits of the element with this number.
TF_OPT_RULE_INLINE uint32_t RandomBitsOf(const RandomKey& key,
                                         int64_t element) {
  const uint32_t place = static_cast<uint32_t>(element) & 1;
  const uint32_t bits = RandomWords(key, element)[0] >> (place * 16);
  return bits * key.factor() & 0xffff;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_RANDOM_BITS_H_
