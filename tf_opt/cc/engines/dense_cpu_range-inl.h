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
#include <utility>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/float_conversion-inl.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// Elements that are updated at a time: a few cache lines of one array are
// fetched, then of the next. Arrays whose sizes are powers of two fall on the
// same places of the caches, and to ask memory for a line of each in turn can
// cost a quarter more time than to go through them like this.
constexpr int64_t kBlockSize = 64;

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

// A block in the arithmetic type V: a widened copy of 16-bit elements, ...
template <typename V, typename T>
class Block {
 public:
  Block(T* array, int n) : array_(array), n_(n) {
    WidenBlock(array, n, values_);
  }
  V* values() { return values_; }
  void Store() { NarrowBlock(values_, n_, array_); }

 private:
  T* array_;
  int n_;
  alignas(64) V values_[kBlockSize];
};

// ... or the array itself, where it holds V already.
template <typename V>
class Block<V, V> {
 public:
  Block(V* array, int) : values_(array) {}
  V* values() { return values_; }
  void Store() {}

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

template <typename V, typename Rule, typename... Slot>
inline __attribute__((always_inline)) void Update(const Rule rule, int n,
                                                  V* __restrict p,
                                                  const V* __restrict g,
                                                  Slot* __restrict... slots) {
  for (int i = 0; i < n; ++i) {
    rule(p[i], g[i], slots[i]...);
    p[i] = CanonicalNan(p[i]);
    ((slots[i] = CanonicalNan(slots[i])), ...);
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

template <typename V>
__attribute__((noinline)) void AverageBlock(const MovingAverage<V> average,
                                            int n, V* __restrict p,
                                            V* __restrict averages) {
  for (int i = 0; i < n; ++i) averages[i] = average(averages[i], p[i]);
  if (!average.overwrite) return;
  for (int i = 0; i < n; ++i) p[i] = averages[i];
}

// Lets the average follow the variable as it lies in memory.
template <typename V, typename T>
inline __attribute__((always_inline)) void FollowVariable(
    const MovingAverage<V>& average, T* variable, V* averages, int n) {
  Block<V, T> stored(variable, n);
  AverageBlock<V>(average, n, stored.values(), averages);
  if (average.overwrite) stored.Store();
}

template <typename T, typename Rule, std::size_t... kIndices>
inline __attribute__((always_inline)) void ApplyBlock(
    const FramedRule<Rule>& rule, const DenseTensor<T, Rule::kSlots>& tensor,
    int64_t start, int n, bool transforms, std::index_sequence<kIndices...>) {
  using V = ComputeType<T>;
  Block<V, T> variable(tensor.variable() + start, n);
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
  Update<V>(rule.rule, n, variable.values(), g,
            tensor.template slot<kIndices>() + start...);
  variable.Store();
  if (tensor.average() != nullptr) {
    FollowVariable(rule.average, tensor.variable() + start,
                   tensor.average() + start, n);
  }
}

// Asks memory for a block ahead of a tensor that may not be there.
template <bool kWritten, typename V>
inline __attribute__((always_inline)) void PrefetchOptional(const V* tensor,
                                                            int64_t start) {
  if (tensor != nullptr) PrefetchBlock<kWritten>(tensor + start);
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
      (PrefetchBlock<true>(tensor.template slot<kIndices>() + start), ...);
      PrefetchOptional<true>(tensor.accumulator(), start);
      PrefetchOptional<true>(tensor.average(), start);
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
      PrefetchOptional<true>(tensor.average(), start);
    }
    if (tensor.accumulator() != nullptr) {
      const GradientBlock<V, T> gradient(tensor.gradient(), start, n);
      AccumulateBlock<V>(rule.gradient, n, gradient.values(),
                         tensor.accumulator() + start);
    }
    if (tensor.average() != nullptr) {
      FollowVariable(rule.average, tensor.variable() + start,
                     tensor.average() + start, n);
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
