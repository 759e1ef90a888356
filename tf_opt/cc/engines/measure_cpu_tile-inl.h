// The inner loop of the CPU engine that measures gradients, for one instruction
// set. What dense_cpu_range-inl.h says of such files holds here too.
#if !defined(TF_OPT_CPU_TARGET)
#error "TF_OPT_CPU_TARGET must name the target's namespace"
#endif

#include <cstddef>
#include <cstdint>

#include "tf_opt/cc/engines/float_conversion-inl.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// So many elements of a lane are added while its sum is in a register; one at a
// time, sums would be loaded and stored as often as elements are loaded.
constexpr int kElementsAtATime = 4;
constexpr int kChunk = kElementsAtATime * kLanes;

// How far ahead memory is asked for a chunk. Without this a core gets half of
// the bandwidth for float32; with half of the distance a few percent less. What
// is behind the end of a tensor is asked for in vain.
constexpr uintptr_t kPrefetchBytes = 8192;

template <typename E>
inline __attribute__((always_inline)) void PrefetchAfter(const E* chunk) {
  constexpr int kCacheLine = 64;
  const auto begin = reinterpret_cast<uintptr_t>(chunk) + kPrefetchBytes;
  for (std::size_t i = 0; i < kChunk * sizeof(E); i += kCacheLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(begin + i));
  }
}

// Elements in the arithmetic type: those themselves, or a widened copy.
template <typename T>
inline __attribute__((always_inline)) const ComputeType<T>* Widened(
    const T* values, int n, ComputeType<T>* copy) {
  if constexpr (sizeof(T) == sizeof(*copy)) {
    return values;
  } else {
    WidenBlock(values, n, copy);
    return copy;
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

// Adds the squares of kElements elements to each of the first `count` lanes.
template <int kElements, bool kAccumulated, typename V>
inline __attribute__((always_inline)) void AddToLanes(
    V scale, const V* __restrict gradient, const V* __restrict accumulator,
    int count, double* __restrict lanes) {
  for (int lane = 0; lane < count; ++lane) {
    double sum = lanes[lane];
    for (int k = 0; k < kElements; ++k) {
      sum += Square(ValueAt<kAccumulated>(scale, gradient, accumulator,
                                          k * kLanes + lane));
    }
    lanes[lane] = sum;
  }
}

template <bool kAccumulated, typename T>
inline __attribute__((always_inline)) double SumOfSquares(
    ComputeType<T> scale, const T* gradient, const ComputeType<T>* accumulator,
    int64_t size) {
  alignas(64) double lanes[kLanes] = {};
  alignas(64) ComputeType<T> copy[kChunk];
  int64_t start = 0;
  for (; start + kChunk <= size; start += kChunk) {
    PrefetchAfter(gradient + start);
    if (kAccumulated) PrefetchAfter(accumulator + start);
    AddToLanes<kElementsAtATime, kAccumulated>(
        scale, Widened(gradient + start, kChunk, copy),
        kAccumulated ? accumulator + start : nullptr, kLanes, lanes);
  }
  for (; start < size; start += kLanes) {
    const int n = size - start < kLanes ? size - start : kLanes;
    AddToLanes<1, kAccumulated>(scale, Widened(gradient + start, n, copy),
                                kAccumulated ? accumulator + start : nullptr, n,
                                lanes);
  }
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
  // A finite sum is one of finite numbers, so almost never is more to be done.
  return {sum, IsFinite(sum) ||
                   AllFinite<kAccumulated>(scale, gradient, accumulator, size)};
}

}  // namespace

template <typename T>
void MeasureTile(ComputeType<T> scale, const T* gradient,
                 const ComputeType<T>* accumulator, int64_t size,
                 Measure* measure) {
  *measure = accumulator == nullptr
                 ? MeasureOf<false>(scale, gradient, accumulator, size)
                 : MeasureOf<true>(scale, gradient, accumulator, size);
}

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt

// Instantiates the measuring of gradients of type T.
#define TF_OPT_INSTANTIATE_MEASURE(T)              \
  template void TF_OPT_CPU_TARGET::MeasureTile<T>( \
      ComputeType<T>, const T*, const ComputeType<T>*, int64_t, Measure*)
