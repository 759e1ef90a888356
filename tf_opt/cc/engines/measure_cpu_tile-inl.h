// The inner loop of the CPU engine that measures gradients, for one instruction
// set. What dense_cpu_range-inl.h says of such files holds here too.
#if !defined(TF_OPT_CPU_TARGET)
#error "TF_OPT_CPU_TARGET must name the target's namespace"
#endif

#include <cstdint>

#include "tf_opt/cc/engines/float_conversion-inl.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// So many elements of a lane are added while its sum is in a register: more
// would not be faster, one would load and store the sums as often as gradients.
constexpr int kElementsAtATime = 4;
constexpr int kChunk = kElementsAtATime * kLanes;

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

// Calls use(start, n, gradient) for each chunk of a tile: where it begins, how
// many elements it has, and these in the arithmetic type.
template <typename T, typename Use>
inline __attribute__((always_inline)) void ForEachChunk(const T* gradient,
                                                        int64_t size,
                                                        const Use& use) {
  alignas(64) ComputeType<T> copy[kChunk];
  int64_t start = 0;
  // Full chunks by themselves, so that the compiler knows their size.
  for (; start + kChunk <= size; start += kChunk) {
    use(start, kChunk, Widened(gradient + start, kChunk, copy));
  }
  if (start < size) {
    const int left = static_cast<int>(size - start);
    use(start, left, Widened(gradient + start, left, copy));
  }
}

template <bool kAccumulated, typename T>
inline __attribute__((always_inline)) double SumOfSquares(
    ComputeType<T> scale, const T* gradient, const ComputeType<T>* accumulator,
    int64_t size) {
  using V = ComputeType<T>;
  alignas(64) double lanes[kLanes] = {};
  ForEachChunk(gradient, size,
               [&](int64_t start, int n, const V* values)
                   __attribute__((always_inline)) {
                     const V* const accumulated =
                         kAccumulated ? accumulator + start : nullptr;
                     if (n == kChunk) {
                       AddToLanes<kElementsAtATime, kAccumulated>(
                           scale, values, accumulated, kLanes, lanes);
                       return;
                     }
                     for (int i = 0; i < n; i += kLanes) {
                       AddToLanes<1, kAccumulated>(
                           scale, values + i,
                           kAccumulated ? accumulated + i : nullptr,
                           n - i < kLanes ? n - i : kLanes, lanes);
                     }
                   });
  return AddLanes<kLanes>(lanes);
}

template <bool kAccumulated, typename T>
inline __attribute__((always_inline)) bool AllFinite(
    ComputeType<T> scale, const T* gradient, const ComputeType<T>* accumulator,
    int64_t size) {
  using V = ComputeType<T>;
  bool finite = true;
  ForEachChunk(gradient, size,
               [&](int64_t start, int n, const V* values)
                   __attribute__((always_inline)) {
                     const V* const accumulated =
                         kAccumulated ? accumulator + start : nullptr;
                     for (int i = 0; i < n; ++i) {
                       finite &= IsFinite(ValueAt<kAccumulated>(
                           scale, values, accumulated, i));
                     }
                   });
  return finite;
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
