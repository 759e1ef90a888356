// Blocks of a step's arrays in the type of the arithmetic, for one instruction
// set. The same rules hold as in range_loops-inl.h.
//
// A rule's loop knows arrays of the arithmetic's type V alone: an array that is
// stored in V is used in place, any other is widened into a block in the
// first-level cache and rounded back after the update.
#include <cstdint>
#include <type_traits>

#include "tf_opt/cc/engines/cpu/elements-inl.h"
#include "tf_opt/cc/engines/float_conversion-inl.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/random_bits.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// For 16-bit variables: the same cache lines hold twice as many elements, and
// the cost per block matters more.
constexpr int64_t kLargestBlock = 2 * kBlockSize;

template <typename T>
constexpr int64_t kBlockSizeOf = kHas16Bits<T> ? kLargestBlock : kBlockSize;

// Random bits in memory, for two elements in each word.
using Bits = uint16_t __attribute__((may_alias));

// Random bits of a block, which those of its operands are made from.
class RandomBlock {
 public:
  // For n elements from this one on.
  RandomBlock(int64_t element, int n) : element_(element), n_(n) {}

  // Returns the bits of the first element and the following ones. Between two
  // calls only the stream of the key may change.
  const Bits* Fill(const RandomKey& key) {
    const int odd = element_ % 2;  // In the upper half of the first word.
    const Bits* const bits = reinterpret_cast<const Bits*>(words_) + odd;
    if (filled_) return bits;
    filled_ = true;
    const int count = (odd + n_ + 1) / 2;
    const RandomWords words(key, element_);
    if (words.GoOn(count)) {
      ForElements<kLargestBlock / 2>(count,
                                     [&](int i) { words_[i] = words[i]; });
    } else {
      for (int i = 0; i < count; ++i) {
        words_[i] = RandomWords(key, element_ + 2 * i)[0];
      }
    }
    return bits;
  }

 private:
  int64_t element_;
  int n_;
  bool filled_ = false;
  alignas(64) uint32_t words_[kLargestBlock / 2 + 1];
};

// Rounds a block by random bits times the factor of a stream.
template <typename V, typename T>
__attribute__((noinline)) void NarrowAtRandom(const V* values, int n,
                                              const Bits* random,
                                              uint16_t factor, T* elements) {
  ForElements<kLargestBlock>(n, [=](int i) {
    const auto narrow = static_cast<float>(values[i]);
    const auto bits = static_cast<uint16_t>(random[i] * factor);
    elements[i] = RoundAtRandom(narrow, bits, T());
  });
}

// Stores a block in 16 bits.
template <typename V, typename T>
inline __attribute__((always_inline)) void StoreBlock(const V* values, int n,
                                                      const RoundingBits& bits,
                                                      RandomBlock* random,
                                                      T* elements) {
  if (bits.at_random) {
    NarrowAtRandom(values, n, random->Fill(bits.key), bits.key.factor(),
                   elements);
  } else {
    NarrowBlock(values, n, elements);
  }
}

// Replaces master weights that don't round to their variables: the variables
// were set from outside.
template <typename T>
__attribute__((noinline)) void Reconcile(const T* variable, int n,
                                         float* master_weights) {
  alignas(64) T rounded[kLargestBlock];
  NarrowBlock(master_weights, n, rounded);
  uint16_t different = 0;
  ForElements<kLargestBlock>(
      n, [&](int i) { different |= rounded[i].bits ^ variable[i].bits; });
  if (different == 0) return;  // As in nearly every step.
  alignas(64) float widened[kLargestBlock];
  WidenBlock(variable, n, widened);
  ForElements(n, [&](int i) {
    const bool same = HaveSameValue(rounded[i], variable[i]);
    master_weights[i] = same ? master_weights[i] : CanonicalNan(widened[i]);
  });
}

// A block of a variable: the array itself; or for 16-bit elements their master
// weights, or a widened copy.
template <typename T>
class VariableBlock {
 public:
  using V = ComputeType<T>;

  VariableBlock(const DenseTensor<T>& tensor, int64_t start, int n)
      : array_(tensor.variable() + start),
        n_(n),
        has_master_weights_(tensor.master_weight() != nullptr) {
    if constexpr (std::is_same<T, V>::value) {
      values_ = array_;
    } else if (has_master_weights_) {
      values_ = tensor.master_weight() + start;
      Reconcile(array_, n, values_);
    } else {
      values_ = copy_;
      WidenBlock(array_, n, copy_);
    }
  }

  V* values() { return values_; }

  // Master weights are always rounded to nearest, because a variable is
  // compared with its rounded master weight.
  void Store(const RoundingBits& bits, RandomBlock* random) {
    if constexpr (!std::is_same<T, V>::value) {
      StoreBlock(values_, n_, has_master_weights_ ? RoundingBits() : bits,
                 random, array_);
    }
  }

 private:
  T* array_;
  int n_;
  bool has_master_weights_;
  V* values_;
  alignas(64) V copy_[kLargestBlock];
};

// A block of an absent gradient.
template <typename V>
alignas(64) constexpr V kZeros[kLargestBlock] = {};

// A block of a gradient, which is only read; zeros if it is absent.
template <typename V, typename T>
class GradientBlock {
 public:
  GradientBlock(const T* gradient, int n)
      : values_(gradient == nullptr ? kZeros<V> : Widened(gradient, n, copy_)) {
  }
  const V* values() const { return values_; }

 private:
  alignas(64) V copy_[kLargestBlock];
  const V* values_;
};

// A block of state, which may be stored in a shorter type than V.
template <typename V>
class StateBlock {
 public:
  StateBlock(const StepArray& array, int64_t start, int n)
      : array_(array),
        start_(start),
        n_(n),
        values_(array.data == nullptr ? nullptr : At<V>()) {
    if (array.type != StateType::kArithmetic) Widen();
  }

  V* values() { return values_; }

  void Store(const RoundingBits& bits, RandomBlock* random) const {
    if (array_.type != StateType::kArithmetic) Narrow(bits, random);
  }

 private:
  template <typename S>
  S* At() const {
    return static_cast<S*>(array_.data) + start_;
  }

  void Widen() {
    values_ = copy_;
    if (array_.type == StateType::kBFloat16) {
      WidenBlock(At<BFloat16>(), n_, copy_);
    } else {
      WidenBlock(At<float>(), n_, copy_);
    }
  }

  void Narrow(const RoundingBits& bits, RandomBlock* random) const {
    if (array_.type == StateType::kBFloat16) {
      StoreBlock(copy_, n_, bits, random, At<BFloat16>());
    } else {
      NarrowBlock(copy_, n_, At<float>());
    }
  }

  StepArray array_;
  int64_t start_;
  int n_;
  V* values_;
  alignas(64) V copy_[kLargestBlock];
};

}  // namespace
}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
