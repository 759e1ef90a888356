// The inner loop of the CPU engine that measures gradients, for one instruction
// set. The same rules hold as in range_loops-inl.h.
#include <cstddef>
#include <cstdint>

#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/float_conversion-inl.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// Prefetch distance, on processors that need prefetching (see loops.cc).
// Prefetching past the end of a tensor has no effect.
constexpr uintptr_t kPrefetchBytes = 8192;

template <typename E>
inline __attribute__((always_inline)) void PrefetchAfter(const E* elements) {
  constexpr int kCacheLine = 64;
  const auto begin = reinterpret_cast<uintptr_t>(elements) + kPrefetchBytes;
  for (std::size_t i = 0; i < kLanes * sizeof(E); i += kCacheLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(begin + i));
  }
}

template <bool kAccumulated, typename V>
inline __attribute__((always_inline)) V ValueAt(V scale, const V* gradient,
                                                const V* accumulator, int i) {
  if constexpr (kAccumulated) {
    return MeasuredValue(scale, gradient[i], accumulator[i]);
  } else {
    return MeasuredValue(scale, gradient[i]);
  }
}

// Reads the elements in their order. Adding several to a lane at a time, while
// its sum is in a register, is no faster in the cache, and from memory it took
// AMD's Zen 4 two to three times as long: that doesn't prefetch streams whose
// lines are read in turns.
template <bool kAccumulated, typename T>
inline __attribute__((always_inline)) double SumOfSquares(
    ComputeType<T> scale, const T* gradient, const ComputeType<T>* accumulator,
    int64_t size) {
  alignas(64) double lanes[kLanes] = {};
  alignas(64) ComputeType<T> copy[kLanes];
  const bool prefetches = prefetch_distance > 0;
  const auto add = [&](int64_t start, int n) __attribute__((always_inline)) {
    if (prefetches) {
      PrefetchAfter(gradient + start);
      if (kAccumulated) PrefetchAfter(accumulator + start);
    }
    const auto* const values = Widened(gradient + start, n, copy);
    const auto* const accumulated =
        kAccumulated ? accumulator + start : nullptr;
    for (int lane = 0; lane < n; ++lane) {
      lanes[lane] +=
          Square(ValueAt<kAccumulated>(scale, values, accumulated, lane));
    }
  };
  int64_t start = 0;
  for (; start + kLanes <= size; start += kLanes) add(start, kLanes);
  add(start, size - start);
  return AddLanes<kLanes>(lanes);
}

template <bool kAccumulated, typename T>
inline __attribute__((always_inline)) bool AllFinite(
    ComputeType<T> scale, const T* gradient, const ComputeType<T>* accumulator,
    int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    ComputeType<T> copy;
    const auto x =
        ValueAt<kAccumulated>(scale, Widened(gradient + i, 1, &copy),
                              kAccumulated ? accumulator + i : nullptr, 0);
    if (!IsFinite(x)) return false;
  }
  return true;
}

template <bool kAccumulated, typename T>
inline __attribute__((always_inline)) Measure
MeasureOf(ComputeType<T> scale, const T* gradient,
          const ComputeType<T>* accumulator, int64_t size) {
  const double sum =
      SumOfSquares<kAccumulated>(scale, gradient, accumulator, size);
  // A finite sum has only finite terms, so this is almost never needed.
  return {sum, IsFinite(sum) ||
                   AllFinite<kAccumulated>(scale, gradient, accumulator, size)};
}

template <typename T>
Measure MeasureRange(ComputeType<T> scale, const T* gradient,
                     const ComputeType<T>* accumulator, int64_t size) {
  return accumulator == nullptr
             ? MeasureOf<false>(scale, gradient, accumulator, size)
             : MeasureOf<true>(scale, gradient, accumulator, size);
}

}  // namespace
}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
