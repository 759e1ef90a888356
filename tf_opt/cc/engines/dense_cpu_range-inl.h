// The dense CPU engine's inner loop, for one instruction set.
//
// A file that instantiates it (kernels/*_dense.cc) is compiled once per target
// with TF_OPT_CPU_TARGET defined as that target's namespace. Such a translation
// unit must emit no function that another one emits too: the linker keeps one
// copy, perhaps the one this machine cannot run. Hence the namespace, the
// always-inline rules and no standard library calls in here.
//
// The flags matter as much as the code (cpu_targets.bzl): without
// -fno-math-errno and -fno-trapping-math the square root and the maximum are
// not vectorized; -ffp-contract=off (.bazelrc) makes every target, every vector
// lane and every loop tail compute bit for bit the same.
#if !defined(TF_OPT_CPU_TARGET)
#error "TF_OPT_CPU_TARGET must name the target's namespace"
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/float_conversion-inl.h"
#include "tf_opt/cc/engines/stochastic_rounding.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/random_bits.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// Elements that are updated at a time: a few cache lines of one array are
// fetched, then of the next. Arrays whose sizes are powers of two fall on the
// same places of the caches, and to ask memory for a line of each in turn can
// cost a quarter more time than to go through them like this.
constexpr int64_t kBlockSize = 128;

// How far ahead, in elements, memory is asked for a block. Without this the
// loop is up to a fifth slower: the processor's own prefetching stops at page
// boundaries and lags behind eight streams. A quarter and four times of it cost
// a few percent.
constexpr int64_t kPrefetchDistance = 512;

template <bool kWritten, typename V>
inline __attribute__((always_inline)) void PrefetchBlock(const V* block) {
  constexpr int kCacheLine = 64;
  const char* bytes = reinterpret_cast<const char*>(block + kPrefetchDistance);
  for (std::size_t i = 0; i < kBlockSize * sizeof(V); i += kCacheLine) {
    __builtin_prefetch(bytes + i, kWritten);
  }
}

// Runs body(i) for n elements, which must not depend on one another. Where
// there are kMost of them, as in a whole block, the compiler knows that.
template <int kMost = kBlockSize, typename Body>
inline __attribute__((always_inline)) void ForElements(int n,
                                                       const Body& body) {
  if (n == kMost) {
#pragma GCC ivdep
    for (int i = 0; i < kMost; ++i) body(i);
  } else {
#pragma GCC ivdep
    for (int i = 0; i < n; ++i) body(i);
  }
}

// Random bits in memory: two elements' in each word.
using Bits = uint16_t __attribute__((may_alias));

// Those of a block.
class RandomBlock {
 public:
  // Of n elements from this one on. Not inlined into the loop of each rule, for
  // the library's size.
  __attribute__((noinline)) const Bits* Fill(const RandomKey& key,
                                             int64_t element, int n) {
    const int odd = element % 2;  // In the upper half of the first word.
    const int count = (odd + n + 1) / 2;
    const RandomWords words(key, element);
    if (words.GoOn(count)) {
      ForElements<kBlockSize / 2>(count, [&](int i) { words_[i] = words[i]; });
    } else {
      for (int i = 0; i < count; ++i) {
        words_[i] = RandomWords(key, element + 2 * i)[0];
      }
    }
    return reinterpret_cast<const Bits*>(words_) + odd;
  }

 private:
  alignas(64) uint32_t words_[kBlockSize / 2 + 1];
};

// Two neighbours.
template <typename V>
struct Pair {
  V even, odd;
};

// How a loop reads and writes an operand of which it computes in V: stored in
// S, as it lies in memory, ...
template <typename V, typename S = V>
struct InPlace {
  static constexpr bool kInPairs = false;

  V Load(int i) const { return values[i]; }
  void Store(int i, V value) const { values[i] = static_cast<S>(value); }
  // What is there if a value is stored.
  static V Held(V value) { return static_cast<S>(value); }

  S* values;
};

// Two neighbours of 16 bits in memory, the even one in the lower half.
using Word = uint32_t __attribute__((may_alias, aligned(2)));

// ... or in bfloat16, rounded as is said here. A float32 is a bfloat16 with 16
// more bits behind it: each of two neighbours is rounded where it is in the
// word of both, and none has to be moved to other lanes of a vector.
template <typename V, Rounding kRounding>
struct InBFloat16 {
  static constexpr bool kInPairs = true;

  V Load(int i) const { return ToFloat(elements[i]); }
  void Store(int i, V value) const {
    elements[i] = {
        static_cast<uint16_t>(Rounded(value, kAtRandom ? random[i] : 0))};
  }
  Pair<V> LoadPair(int i) const {
    const uint32_t word = reinterpret_cast<const Word*>(elements)[i];
    return {FloatOf(word << 16), FloatOf(word & 0xffff0000)};
  }
  void StorePair(int i, Pair<V> pair) const {
    const uint32_t word =
        kAtRandom ? reinterpret_cast<const Word*>(random)[i] : 0;
    reinterpret_cast<Word*>(elements)[i] =
        Rounded(pair.even, word & 0xffff) | Rounded(pair.odd, word >> 16) << 16;
  }
  // What is there if a value is stored to nearest.
  static V Held(V value) { return AsBFloat16(value); }

  BFloat16* elements;
  const Bits* random;

 private:
  static constexpr bool kAtRandom = kRounding == Rounding::kAtRandom;

  static uint32_t Rounded(V value, uint32_t random) {
    const auto narrow = static_cast<float>(value);
    return kAtRandom ? BFloat16AtRandom(narrow, random)
                     : BFloat16NearestOfCanonical(narrow);
  }
};

// Master weights that don't round to their variables become those: somebody
// else has set them.
template <typename T>
__attribute__((noinline)) void Reconcile(const T* variable, int n,
                                         float* master_weights) {
  alignas(64) T rounded[kBlockSize];
  alignas(64) float widened[kBlockSize];
  NarrowBlock(master_weights, n, rounded);
  WidenBlock(variable, n, widened);
  ForElements(n, [&](int i) {
    const bool same = HaveSameValue(rounded[i], variable[i]);
    master_weights[i] = CanonicalNan(same ? master_weights[i] : widened[i]);
  });
}

// Rounds a block by its random bits.
template <typename T>
__attribute__((noinline)) void NarrowAtRandom(const float* values, int n,
                                              const Bits* random, T* elements) {
  ForElements(n, [=](int i) {
    elements[i] = RoundAtRandom(values[i], random[i], T());
  });
}

// A block of a variable in the arithmetic type V: its master weights, or a
// widened copy of 16-bit elements, ...
template <typename V, typename T>
class VariableBlock {
 public:
  template <typename Tensor>
  VariableBlock(const Tensor& tensor, int64_t start, int n)
      : array_(tensor.variable() + start),
        n_(n),
        has_master_weights_(tensor.master_weight() != nullptr) {
    if (has_master_weights_) {
      values_ = tensor.master_weight() + start;
      Reconcile(array_, n, values_);
    } else {
      values_ = copy_;
      WidenBlock(array_, n, copy_);
    }
  }

  V* values() { return values_; }

  // `random_key` is null if they are rounded to nearest, as those of master
  // weights always are: there it is how one sees that they belong together.
  void Store(const RandomKey* random_key, int64_t element) {
    if (random_key == nullptr || has_master_weights_) {
      NarrowBlock(values_, n_, array_);
    } else {
      RandomBlock random;
      NarrowAtRandom(values_, n_, random.Fill(*random_key, element, n_),
                     array_);
    }
  }

 private:
  T* array_;
  int n_;
  bool has_master_weights_;
  V* values_;
  alignas(64) V copy_[kBlockSize];
};

// ... or the array itself, where it holds V already.
template <typename V>
class VariableBlock<V, V> {
 public:
  template <typename Tensor>
  VariableBlock(const Tensor& tensor, int64_t start, int)
      : values_(tensor.variable() + start) {}
  V* values() { return values_; }
  void Store(const RandomKey*, int64_t) {}

 private:
  V* values_;
};

// A block of a gradient: the same, only read; of one that isn't there, zeros.
template <typename V, typename T>
class GradientBlock {
 public:
  GradientBlock(const T* gradient, int64_t start, int n) {
    if (gradient == nullptr) {
      for (V& value : values_) value = 0;
    } else {
      WidenBlock(gradient + start, n, values_);
    }
  }
  const V* values() const { return values_; }

 private:
  alignas(64) V values_[kBlockSize];
};
template <typename V>
class GradientBlock<V, V> {
 public:
  GradientBlock(const V* gradient, int64_t start, int)
      : values_(gradient == nullptr ? kZeros : gradient + start) {}
  const V* values() const { return values_; }

 private:
  alignas(64) static constexpr V kZeros[kBlockSize] = {};

  const V* values_;
};

template <typename First, typename... Rest>
struct LastOfTypes {
  using type = typename LastOfTypes<Rest...>::type;
};
template <typename Last>
struct LastOfTypes<Last> {
  using type = Last;
};
template <typename... Types>
using LastOf = typename LastOfTypes<Types...>::type;

// Not inlined: it is the same for all variables whose block is in V.
template <typename V, typename Rule, typename P, typename G, typename... Slot>
__attribute__((noinline)) void Update(const Rule rule, int n, const P variable,
                                      const G gradient, const Slot... slots) {
  const auto update = [=](V& p, V g,
                          auto&... values) __attribute__((always_inline)) {
    if constexpr (Rule::kAsksHowSlotHolds) {
      rule(p, g, values...,
           [](V value) { return LastOf<Slot...>::Held(value); });
    } else {
      rule(p, g, values...);
    }
    p = CanonicalNan(p);
    ((values = CanonicalNan(values)), ...);
  };
  const auto one = [=](int i, V p, auto... values) {
    update(p, gradient.Load(i), values...);
    variable.Store(i, p);
    (slots.Store(i, values), ...);
  };
  if constexpr (P::kInPairs && (Slot::kInPairs && ...)) {
    const auto two = [=](int i, Pair<V> p, auto... values) {
      const Pair<V> g = gradient.LoadPair(i);
      update(p.even, g.even, values.even...);
      update(p.odd, g.odd, values.odd...);
      variable.StorePair(i, p);
      (slots.StorePair(i, values), ...);
    };
    ForElements<kBlockSize / 2>(n / 2, [=](int i) {
      two(i, variable.LoadPair(i), slots.LoadPair(i)...);
    });
    const int last = n - 1;
    if (n % 2 == 1) one(last, variable.Load(last), slots.Load(last)...);
  } else {
    ForElements(n, [=](int i) { one(i, variable.Load(i), slots.Load(i)...); });
  }
}

// What surrounds the rule, as loops of their own over a block, which is in the
// first cache by then: the rule's own loop is the same with and without it. Not
// inlined into the loop of each rule, for the library's size.

// Writes the gradient that the rule is given to `transformed`; `accumulator`
// may be null.
template <typename V>
__attribute__((noinline)) void TransformBlock(
    const GradientTransform<V> transform, int n, const V* __restrict gradient,
    V* __restrict accumulator, V* __restrict transformed) {
  if (accumulator == nullptr) {
    for (int i = 0; i < n; ++i) transformed[i] = transform(gradient[i]);
    return;
  }
  for (int i = 0; i < n; ++i) {
    transformed[i] = transform(gradient[i], accumulator[i]);
    accumulator[i] = 0;
  }
}

template <typename V>
__attribute__((noinline)) void AccumulateBlock(
    const GradientTransform<V> transform, int n, const V* __restrict gradient,
    V* __restrict accumulator) {
  for (int i = 0; i < n; ++i) {
    accumulator[i] =
        CanonicalNan(transform.Accumulate(accumulator[i], gradient[i]));
  }
}

template <typename V, typename A>
__attribute__((noinline)) void AverageBlock(const MovingAverage<V> average,
                                            int n, V* variable,
                                            const A averages) {
  const auto follow = [=](int i) {
    const V value = average(averages.Load(i), variable[i]);
    averages.Store(i, value);
    return value;
  };
  if (average.overwrite) {
    ForElements(n, [=](int i) { variable[i] = follow(i); });
  } else {
    ForElements(n, [=](int i) { follow(i); });
  }
}

// An operand of a block that is state, of which the first element has the
// number `element` and which is stored in S, if it may be.
template <typename S, int kOperand, Storage kStorage, Rounding kRounding,
          typename V, typename Rule>
inline __attribute__((always_inline)) auto StateOf(const FramedRule<Rule>& rule,
                                                   const StateArray<V>& array,
                                                   int64_t start, int n,
                                                   int64_t element,
                                                   RandomBlock* random) {
  if constexpr (kStorage != Storage::kState || std::is_same<S, V>::value) {
    return InPlace<V>{static_cast<V*>(array.data) + start};
  } else if constexpr (std::is_same<S, BFloat16>::value) {
    return InBFloat16<V, kRounding>{
        static_cast<BFloat16*>(array.data) + start,
        kRounding == Rounding::kAtRandom
            ? random->Fill(rule.random_keys[kOperand], element, n)
            : nullptr};
  } else {
    return InPlace<V, float>{static_cast<float*>(array.data) + start};
  }
}

// Calls use(S()) with the type in which state is stored.
template <typename V, typename Use>
inline __attribute__((always_inline)) void WithStateType(StateType type,
                                                         const Use& use) {
  if (type == StateType::kBFloat16) {
    use(BFloat16());
  } else if (type == StateType::kFloat && sizeof(V) > sizeof(float)) {
    use(float());
  } else {
    use(V());
  }
}

// Updates a block whose variable and gradient are read and written like this.
template <typename T, typename Rule, typename P, typename G,
          std::size_t... kIndices>
inline __attribute__((always_inline)) void UpdateBlock(
    const FramedRule<Rule>& rule, const DenseTensor<T, Rule::kSlots>& tensor,
    int64_t start, int n, const P& variable, const G& gradient,
    std::index_sequence<kIndices...>) {
  using V = ComputeType<T>;
  WithStateType<V>(tensor.slot_type(), [&](auto stored) {
    RandomBlock random[Rule::kSlots];
    Update<V>(rule.rule, n, variable, gradient,
              StateOf<decltype(stored), kFrameOperandCount + kIndices,
                      Rule::Description::kSlotOperands[kIndices].storage,
                      Rule::Description::kSlotOperands[kIndices].rounding>(
                  rule, tensor.template slot<kIndices>(), start, n,
                  tensor.first + start, &random[kIndices])...);
  });
}

// Lets the average follow the variable: its master weights or what was stored.
template <typename T, typename Rule>
inline __attribute__((always_inline)) void FollowVariable(
    const FramedRule<Rule>& rule, const DenseTensor<T, Rule::kSlots>& tensor,
    int64_t start, int n) {
  using V = ComputeType<T>;
  VariableBlock<V, T> variable(tensor, start, n);
  const int64_t element = tensor.first + start;
  WithStateType<V>(tensor.average().type, [&](auto stored) {
    RandomBlock random;
    AverageBlock<V>(
        rule.average, n, variable.values(),
        StateOf<decltype(stored), kAverage, kFrameOperands[kAverage].storage,
                kFrameOperands[kAverage].rounding>(rule, tensor.average(),
                                                   start, n, element, &random));
  });
  if (rule.average.overwrite)
    variable.Store(rule.template KeyOf<kVariable>(), element);
}

template <typename T, typename Rule, std::size_t... kIndices>
inline __attribute__((always_inline)) void ApplyBlock(
    const FramedRule<Rule>& rule, const DenseTensor<T, Rule::kSlots>& tensor,
    int64_t start, int n, bool transforms,
    std::index_sequence<kIndices...> slots) {
  using V = ComputeType<T>;
  const int64_t element = tensor.first + start;
  const RandomKey* const key = rule.template KeyOf<kVariable>();
  const auto update = [&](const auto& variable, const auto& gradient) {
    UpdateBlock(rule, tensor, start, n, variable, gradient, slots);
  };
  if constexpr (std::is_same<T, BFloat16>::value) {
    // Without a copy: a step is short enough for copying to show.
    if (!transforms && tensor.master_weight() == nullptr) {
      alignas(64) static constexpr T kZeros[kBlockSize] = {};
      const T* const g =
          tensor.gradient() == nullptr ? kZeros : tensor.gradient() + start;
      const InBFloat16<V, Rounding::kToNearest> gradient{const_cast<T*>(g),
                                                         nullptr};
      T* const p = tensor.variable() + start;
      if (key == nullptr) {
        update(InBFloat16<V, Rounding::kToNearest>{p, nullptr}, gradient);
      } else {
        RandomBlock random;
        update(InBFloat16<V, Rounding::kAtRandom>{p, random.Fill(*key, element,
                                                                 n)},
               gradient);
      }
      if (tensor.average().data != nullptr) {
        FollowVariable(rule, tensor, start, n);
      }
      return;
    }
  }
  {
    VariableBlock<V, T> variable(tensor, start, n);
    const GradientBlock<V, T> gradient(tensor.gradient(), start, n);
    const V* g = gradient.values();
    alignas(64) V transformed[kBlockSize];
    if (transforms) {
      V* const accumulator = tensor.accumulator();
      TransformBlock<V>(rule.gradient, n, g,
                        accumulator == nullptr ? nullptr : accumulator + start,
                        transformed);
      g = transformed;
    }
    update(InPlace<V>{variable.values()}, InPlace<V>{const_cast<V*>(g)});
    variable.Store(key, element);
  }
  if (tensor.average().data != nullptr) FollowVariable(rule, tensor, start, n);
}

// Asks memory for a block ahead of a tensor that may not be there.
template <bool kWritten, typename V>
inline __attribute__((always_inline)) void PrefetchOptional(const V* tensor,
                                                            int64_t start) {
  if (tensor != nullptr) PrefetchBlock<kWritten>(tensor + start);
}

template <typename V>
inline __attribute__((always_inline)) void PrefetchState(
    const StateArray<V>& array, int64_t start) {
  if (array.type == StateType::kArithmetic) {
    PrefetchOptional<true>(static_cast<V*>(array.data), start);
  } else if (array.type == StateType::kBFloat16) {
    PrefetchOptional<true>(static_cast<BFloat16*>(array.data), start);
  } else {
    PrefetchOptional<true>(static_cast<float*>(array.data), start);
  }
}

template <typename T, typename Rule, std::size_t... kIndices>
inline __attribute__((always_inline)) void ApplyBlocks(
    const FramedRule<Rule>& rule, const DenseTensor<T, Rule::kSlots>& tensor,
    int64_t begin, int64_t end, std::index_sequence<kIndices...> indices) {
  const bool transforms =
      tensor.accumulator() != nullptr || !rule.gradient.IsIdentity();
  int64_t start = begin;
  // Full blocks by themselves, so that the compiler knows their size.
  for (; start + kBlockSize <= end; start += kBlockSize) {
    if (start + kPrefetchDistance < tensor.size) {
      PrefetchBlock<true>(tensor.variable() + start);
      PrefetchOptional<false>(tensor.gradient(), start);
      (PrefetchState(tensor.template slot<kIndices>(), start), ...);
      PrefetchOptional<true>(tensor.accumulator(), start);
      PrefetchOptional<true>(tensor.master_weight(), start);
      PrefetchState(tensor.average(), start);
    }
    ApplyBlock(rule, tensor, start, kBlockSize, transforms, indices);
  }
  if (start < end) {
    ApplyBlock(rule, tensor, start, static_cast<int>(end - start), transforms,
               indices);
  }
}

}  // namespace

template <typename T, typename Rule>
void ApplyRange(const FramedRule<Rule>& rule,
                const DenseTensor<T, Rule::kSlots>& tensor, int64_t begin,
                int64_t end) {
  ApplyBlocks<T>(rule, tensor, begin, end,
                 std::make_index_sequence<Rule::kSlots>());
}

template <typename T, typename Rule>
void AccumulateRange(const FramedRule<Rule>& rule,
                     const DenseTensor<T, Rule::kSlots>& tensor, int64_t begin,
                     int64_t end) {
  using V = ComputeType<T>;
  for (int64_t start = begin; start < end; start += kBlockSize) {
    const int n =
        static_cast<int>(end - start < kBlockSize ? end - start : kBlockSize);
    if (start + kPrefetchDistance < tensor.size) {
      PrefetchOptional<false>(tensor.gradient(), start);
      PrefetchOptional<true>(tensor.accumulator(), start);
      PrefetchState(tensor.average(), start);
    }
    if (tensor.accumulator() != nullptr) {
      const GradientBlock<V, T> gradient(tensor.gradient(), start, n);
      AccumulateBlock<V>(rule.gradient, n, gradient.values(),
                         tensor.accumulator() + start);
    }
    if (tensor.average().data != nullptr) {
      FollowVariable(rule, tensor, start, n);
    }
  }
}

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt

// Instantiates the loops of Rule<V, ...> for variables of type T.
#define TF_OPT_INSTANTIATE_DENSE(T, Rule, ...)                          \
  template void TF_OPT_CPU_TARGET::ApplyRange<T>(                       \
      const FramedRule<Rule<ComputeType<T>, __VA_ARGS__>>&,             \
      const DenseTensor<T, Rule<ComputeType<T>, __VA_ARGS__>::kSlots>&, \
      int64_t, int64_t);                                                \
  template void TF_OPT_CPU_TARGET::AccumulateRange<T>(                  \
      const FramedRule<Rule<ComputeType<T>, __VA_ARGS__>>&,             \
      const DenseTensor<T, Rule<ComputeType<T>, __VA_ARGS__>::kSlots>&, \
      int64_t, int64_t)
