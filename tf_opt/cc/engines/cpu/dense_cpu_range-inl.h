// The dense CPU engine's inner loop, for one instruction set.
//
// The file that instantiates it (rule_loops.cc) is compiled once per target
// with TF_OPT_CPU_TARGET defined as that target's namespace. Such a translation
// unit must emit no function that another one emits too: the linker keeps one
// copy, perhaps the one this machine cannot run. Hence the namespace, the
// always-inline rules and no standard library calls in here.
//
// The flags matter as much as the code (cpu_targets.bzl): without
// -fno-math-errno and -fno-trapping-math the square root and the maximum are
// not vectorized. -ffp-contract=off (tf_opt/copts.bzl) makes every target,
// every vector lane and every loop tail compute the same bits.
#if !defined(TF_OPT_CPU_TARGET)
#error "TF_OPT_CPU_TARGET must name the target's namespace"
#endif

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/float_conversion-inl.h"
#include "tf_opt/cc/engines/stochastic_rounding.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/random_bits.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// Number of elements updated at a time: a few cache lines of one array are
// fetched, then of the next. Arrays whose sizes are powers of two share places
// in the caches, and fetching one line of each in turn can cost a quarter more
// time.
#if defined(TF_OPT_BLOCK_SIZE)
constexpr int64_t kBlockSize = TF_OPT_BLOCK_SIZE;  // For benchmarks.
#else
constexpr int64_t kBlockSize = 128;
#endif

// For 16-bit variables: the same cache lines hold twice as many elements, and
// the cost per block matters more.
constexpr int64_t kLargestBlock = 2 * kBlockSize;

template <typename T>
constexpr int64_t kBlockSizeOf = kHas16Bits<T> ? kLargestBlock : kBlockSize;

template <bool kWritten, int64_t kSize, typename V>
inline __attribute__((always_inline)) void PrefetchBlock(const V* block) {
  constexpr int kCacheLine = 64;
  const char* bytes = reinterpret_cast<const char*>(block);
  for (std::size_t i = 0; i < kSize * sizeof(V); i += kCacheLine) {
    __builtin_prefetch(bytes + i, kWritten);
  }
}

// Runs body(i) for n independent elements. If there are kMost, as in a whole
// block, the compiler knows the count.
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

// Random bits in memory, for two elements in each word.
using Bits = uint16_t __attribute__((may_alias));

// Bits of one stream for a block.
struct StreamBlock {
  alignas(64) Bits bits[kLargestBlock + 2];
};

// Shared bits that the streams of a block are made from.
class RandomBlock {
 public:
  // For n elements from this one on.
  RandomBlock(int64_t element, int n) : element_(element), n_(n) {}

  // Returns the stream's bits from the first element on, possibly in `stream`.
  // From one call to the next, only the stream of the key may change. Not
  // inlined into the loop of each rule, to keep the library small.
  __attribute__((noinline)) const Bits* Fill(const RandomKey& key,
                                             StreamBlock* stream) {
    const int odd = element_ % 2;  // In the upper half of the first word.
    const int count = (odd + n_ + 1) / 2;
    if (!filled_) {
      filled_ = true;
      const RandomWords words(key, element_);
      if (words.GoOn(count)) {
        ForElements<kLargestBlock / 2>(count,
                                       [&](int i) { words_[i] = words[i]; });
      } else {
        for (int i = 0; i < count; ++i) {
          words_[i] = RandomWords(key, element_ + 2 * i)[0];
        }
      }
    }
    const Bits* const shared = reinterpret_cast<const Bits*>(words_);
    const uint16_t factor = key.factor();
    if (factor == 1) return shared + odd;
    Bits* const bits = stream->bits;
    ForElements<kLargestBlock>(2 * count,
                               [=](int i) { bits[i] = shared[i] * factor; });
    return bits + odd;
  }

 private:
  int64_t element_;
  int n_;
  bool filled_ = false;
  alignas(64) uint32_t words_[kLargestBlock / 2 + 1];
};

// Two neighbours.
template <typename V>
struct Pair {
  V even, odd;
};

// Those of a block.
template <typename V>
struct PairBlock {
  void Set(int i, Pair<V> pair) {
    even[i] = pair.even;
    odd[i] = pair.odd;
  }

  // Returns whether there are NaNs among the first n. There almost never are:
  // checking costs less than CanonicalNan() for all.
  __attribute__((noinline)) bool HasNan(int n) const {
    uint32_t found = 0;
    const auto look = [&](int i) __attribute__((always_inline)) {
      found |= __builtin_isunordered(even[i], odd[i]) ? 1u : 0u;
    };
    ForElements<kLargestBlock / 2>(n, look);
    return found != 0;
  }

  alignas(64) V even[kLargestBlock / 2];
  alignas(64) V odd[kLargestBlock / 2];
};

// Loads and stores an operand for a loop that computes in V, if it is stored in
// S, as it lies in memory, ...
template <typename V, typename S = V>
struct InPlace {
  static constexpr bool kInPairs = false;

  V Load(int i) const { return values[i]; }
  void Store(int i, V value) const { values[i] = static_cast<S>(value); }
  // Returns the value after a store.
  static V Held(V value) { return static_cast<S>(value); }

  S* values;
};

// Two 16-bit neighbours in memory, the even one in the lower half.
using Word = uint32_t __attribute__((may_alias, aligned(2)));

// ... or in bfloat16, with this rounding. A bfloat16 is the upper half of a
// float32: each of two neighbours is rounded in place in the word of both, and
// no vector lane has to move.
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

  // Stores the first n of a block, which may contain NaNs. Not inlined, to keep
  // the library small.
  __attribute__((noinline)) static void StorePairs(const InBFloat16& to, int n,
                                                   bool nans,
                                                   const PairBlock<V>& block) {
    const InBFloat16 out = to;
    const V* const even = block.even;
    const V* const odd = block.odd;
    if (nans) {
      for (int i = 0; i < n; ++i) {
        out.StorePair(i, {CanonicalNan(even[i]), CanonicalNan(odd[i])});
      }
    } else {
      ForElements<kLargestBlock / 2>(
          n, [=](int i) { out.StorePair(i, {even[i], odd[i]}); });
    }
  }

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

// Replaces master weights that don't round to their variables: the variables
// were set from outside.
template <typename T>
__attribute__((noinline)) void Reconcile(const T* variable, int n,
                                         float* master_weights) {
  alignas(64) T rounded[kLargestBlock];
  alignas(64) float widened[kLargestBlock];
  NarrowBlock(master_weights, n, rounded);
  WidenBlock(variable, n, widened);
  ForElements(n, [&](int i) {
    const bool same = HaveSameValue(rounded[i], variable[i]);
    master_weights[i] = CanonicalNan(same ? master_weights[i] : widened[i]);
  });
}

// Rounds a block by random bits.
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

  // `random_key` is null for rounding to nearest. Master weights are always
  // rounded to nearest, because a variable is compared with its rounded master
  // weight.
  void Store(const RandomKey* random_key, int64_t element) {
    if (random_key == nullptr || has_master_weights_) {
      NarrowBlock(values_, n_, array_);
    } else {
      RandomBlock random(element, n_);
      StreamBlock stream;
      NarrowAtRandom(values_, n_, random.Fill(*random_key, &stream), array_);
    }
  }

 private:
  T* array_;
  int n_;
  bool has_master_weights_;
  V* values_;
  alignas(64) V copy_[kLargestBlock];
};

// ... or the array itself, if it holds V.
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

// A block of a gradient, which is only read; zeros if it is absent.
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
  alignas(64) V values_[kLargestBlock];
};
template <typename V>
class GradientBlock<V, V> {
 public:
  GradientBlock(const V* gradient, int64_t start, int)
      : values_(gradient == nullptr ? kZeros : gradient + start) {}
  const V* values() const { return values_; }

 private:
  alignas(64) static constexpr V kZeros[kLargestBlock] = {};

  const V* values_;
};

// Applies a rule to one element.
template <typename V, typename... Slot, typename Rule, typename... Values>
inline __attribute__((always_inline)) void ApplyRule(const Rule& rule, V& p,
                                                     V g, Values&... values) {
  if constexpr (Rule::kRoundsGradientLikeSlot) {
    using Last = std::tuple_element_t<sizeof...(Slot) - 1, std::tuple<Slot...>>;
    rule(p, g, values..., [](V value) { return Last::Held(value); });
  } else {
    rule(p, g, values...);
  }
}

// Updates the first 2 * n elements, stored in pairs. Rounding runs in separate
// loops: square root and division take so long that a processor starts the next
// elements meanwhile, and less work per element lets it look further ahead.
template <typename V, typename Rule, typename P, typename G, typename... Slot,
          std::size_t... kIndices>
inline __attribute__((always_inline)) void UpdatePairs(
    const Rule rule, int n, const P variable, const G gradient,
    std::index_sequence<kIndices...>, const Slot... slots) {
  PairBlock<V> variables;
  [[maybe_unused]] PairBlock<V>
      states[sizeof...(Slot) > 0 ? sizeof...(Slot) : 1];
  const auto update = [&](int i, Pair<V> p,
                          auto... values) __attribute__((always_inline)) {
    const Pair<V> g = gradient.LoadPair(i);
    ApplyRule<V, Slot...>(rule, p.even, g.even, values.even...);
    ApplyRule<V, Slot...>(rule, p.odd, g.odd, values.odd...);
    variables.Set(i, p);
    (states[kIndices].Set(i, values), ...);
  };
  ForElements<kLargestBlock / 2>(
      n, [&](int i) { update(i, variable.LoadPair(i), slots.LoadPair(i)...); });
  // A NaN in a slot reaches the variable if the rule promises that.
  bool nans = variables.HasNan(n);
  if constexpr (!Rule::kVariableShowsNan) {
    nans = nans || (states[kIndices].HasNan(n) || ...);
  }
  P::StorePairs(variable, n, nans, variables);
  (Slot::StorePairs(slots, n, nans, states[kIndices]), ...);
}

// Updates the n elements of a block. Not inlined: it is the same for all
// variables whose block is in V. The arguments are copied here, so that the
// compiler knows that no store changes them; copied by the call, they would be
// written in parts and read as a whole, which stalls a processor.
template <typename V, typename Rule, typename P, typename G, typename... Slot>
__attribute__((noinline)) void Update(const Rule& its_rule, int n,
                                      const P& its_variable,
                                      const G& its_gradient,
                                      const Slot&... its_slots) {
  const auto update = [n, rule = its_rule, variable = its_variable,
                       gradient = its_gradient](
                          const Slot... slots) __attribute__((always_inline)) {
    const auto one = [=](int i, V p, auto... values) {
      ApplyRule<V, Slot...>(rule, p, gradient.Load(i), values...);
      variable.Store(i, CanonicalNan(p));
      (slots.Store(i, CanonicalNan(values)), ...);
    };
    if constexpr (P::kInPairs && (Slot::kInPairs && ...)) {
      UpdatePairs<V>(rule, n / 2, variable, gradient,
                     std::index_sequence_for<Slot...>(), slots...);
      const int last = n - 1;
      if (n % 2 == 1) one(last, variable.Load(last), slots.Load(last)...);
    } else {
      ForElements(n,
                  [=](int i) { one(i, variable.Load(i), slots.Load(i)...); });
    }
  };
  update(its_slots...);
}

// The frame around the rule, in separate loops over a block, which is in the
// first-level cache by then: the rule's own loop is the same with and without
// it. Not inlined into the loop of each rule, to keep the library small.

// Writes the gradient for the rule to `transformed`; `accumulator` may be null.
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

// A block of an operand that is state and may be stored in S; `element` is the
// number of its first element.
template <typename S, int kOperand, Storage kStorage, Rounding kRounding,
          typename V, typename Rule>
inline __attribute__((always_inline)) auto StateOf(const FramedRule<Rule>& rule,
                                                   const StateArray<V>& array,
                                                   int64_t start,
                                                   RandomBlock* random,
                                                   StreamBlock* stream) {
  if constexpr (kStorage != Storage::kState || std::is_same<S, V>::value) {
    return InPlace<V>{static_cast<V*>(array.data) + start};
  } else if constexpr (std::is_same<S, BFloat16>::value) {
    return InBFloat16<V, kRounding>{
        static_cast<BFloat16*>(array.data) + start,
        kRounding == Rounding::kAtRandom
            ? random->Fill(rule.random_keys[kOperand], stream)
            : nullptr};
  } else {
    return InPlace<V, float>{static_cast<float*>(array.data) + start};
  }
}

// Calls use(S()) with the type that state is stored in.
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

// Updates a block that loads and stores its variable and gradient like this.
template <typename T, typename Rule, typename P, typename G,
          std::size_t... kIndices>
inline __attribute__((always_inline)) void UpdateBlock(
    const FramedRule<Rule>& rule, const DenseTensor<T, Rule::kSlots>& tensor,
    int64_t start, int n, const P& variable, const G& gradient,
    RandomBlock* random, std::index_sequence<kIndices...>) {
  using V = ComputeType<T>;
  WithStateType<V>(tensor.slot_type(), [&](auto stored) {
    [[maybe_unused]] StreamBlock streams[Rule::kSlots > 0 ? Rule::kSlots : 1];
    Update<V>(rule.rule, n, variable, gradient,
              StateOf<decltype(stored), kFrameOperandCount + kIndices,
                      kSlotsOf<Rule>[kIndices].storage,
                      kSlotsOf<Rule>[kIndices].rounding>(
                  rule, tensor.template slot<kIndices>(), start, random,
                  &streams[kIndices])...);
  });
}

// Moves the average towards the master weights or the stored variable.
template <typename T, typename Rule>
inline __attribute__((always_inline)) void FollowVariable(
    const FramedRule<Rule>& rule, const DenseTensor<T, Rule::kSlots>& tensor,
    int64_t start, int n) {
  using V = ComputeType<T>;
  VariableBlock<V, T> variable(tensor, start, n);
  const int64_t element = tensor.first + start;
  WithStateType<V>(tensor.average().type, [&](auto stored) {
    RandomBlock random(element, n);
    StreamBlock stream;
    AverageBlock<V>(
        rule.average, n, variable.values(),
        StateOf<decltype(stored), kAverage, kFrameOperands[kAverage].storage,
                kFrameOperands[kAverage].rounding>(rule, tensor.average(),
                                                   start, &random, &stream));
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
  RandomBlock random(element, n);
  const auto update = [&](const auto& variable, const auto& gradient) {
    UpdateBlock(rule, tensor, start, n, variable, gradient, &random, slots);
  };
  if constexpr (std::is_same<T, BFloat16>::value) {
    // Without a copy, which would show in a short step.
    if (!transforms && tensor.master_weight() == nullptr) {
      alignas(64) static constexpr T kZeros[kLargestBlock] = {};
      const T* const g =
          tensor.gradient() == nullptr ? kZeros : tensor.gradient() + start;
      const InBFloat16<V, Rounding::kToNearest> gradient{const_cast<T*>(g),
                                                         nullptr};
      T* const p = tensor.variable() + start;
      if (key == nullptr) {
        update(InBFloat16<V, Rounding::kToNearest>{p, nullptr}, gradient);
      } else {
        StreamBlock stream;
        update(
            InBFloat16<V, Rounding::kAtRandom>{p, random.Fill(*key, &stream)},
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
    alignas(64) V transformed[kLargestBlock];
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

// Prefetches a block of a tensor, which may be absent.
template <bool kWritten, int64_t kSize, typename V>
inline __attribute__((always_inline)) void PrefetchOptional(const V* tensor,
                                                            int64_t start) {
  if (tensor != nullptr) PrefetchBlock<kWritten, kSize>(tensor + start);
}

template <int64_t kSize, typename V>
inline __attribute__((always_inline)) void PrefetchState(
    const StateArray<V>& array, int64_t start) {
  if (array.type == StateType::kArithmetic) {
    PrefetchOptional<true, kSize>(static_cast<V*>(array.data), start);
  } else if (array.type == StateType::kBFloat16) {
    PrefetchOptional<true, kSize>(static_cast<BFloat16*>(array.data), start);
  } else {
    PrefetchOptional<true, kSize>(static_cast<float*>(array.data), start);
  }
}

template <typename T, typename Rule, std::size_t... kIndices>
inline __attribute__((always_inline)) void ApplyBlocks(
    const FramedRule<Rule>& rule, const DenseTensor<T, Rule::kSlots>& tensor,
    int64_t begin, int64_t end, std::index_sequence<kIndices...> indices) {
  const bool transforms =
      tensor.accumulator() != nullptr || !rule.gradient.IsIdentity();
  int64_t start = begin;
  // Full blocks separately, so that the compiler knows their size.
  constexpr int64_t kSize = kBlockSizeOf<T>;
  const int64_t distance = prefetch_distance;
  for (; start + kSize <= end; start += kSize) {
    const int64_t ahead = start + distance;
    if (distance > 0 && ahead < tensor.size) {
      PrefetchBlock<true, kSize>(tensor.variable() + ahead);
      PrefetchOptional<false, kSize>(tensor.gradient(), ahead);
      (PrefetchState<kSize>(tensor.template slot<kIndices>(), ahead), ...);
      PrefetchOptional<true, kSize>(tensor.accumulator(), ahead);
      PrefetchOptional<true, kSize>(tensor.master_weight(), ahead);
      PrefetchState<kSize>(tensor.average(), ahead);
    }
    ApplyBlock(rule, tensor, start, kSize, transforms, indices);
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
  constexpr int64_t kSize = kBlockSizeOf<T>;
  const int64_t distance = prefetch_distance;
  for (int64_t start = begin; start < end; start += kSize) {
    const int n = static_cast<int>(end - start < kSize ? end - start : kSize);
    const int64_t ahead = start + distance;
    if (distance > 0 && ahead < tensor.size) {
      PrefetchOptional<false, kSize>(tensor.gradient(), ahead);
      PrefetchOptional<true, kSize>(tensor.accumulator(), ahead);
      PrefetchState<kSize>(tensor.average(), ahead);
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
