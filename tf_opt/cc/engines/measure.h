// What is measured of gradients, and in which order it is added up: the one for
// all engines, so that every one of them comes to the same bits.
//
//   x = scale * gradient + accumulator, in the arithmetic type, rounded twice
//   sum of squares = x_0^2 + x_1^2 + ..., squared and added in float64
//
// 1. Element i of a tile is added to lane i % kLanes, in the elements' order.
// 2. The lanes of a tile are added by AddLanes.
// 3. The sums of a tensor's tiles are added like the elements of a tile: that
//    of tile k to lane k % kLanes, then the lanes.
#ifndef TF_OPT_CC_ENGINES_MEASURE_H_
#define TF_OPT_CC_ENGINES_MEASURE_H_

#include <cstdint>

#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// On a CPU doubles that stay in the first cache; on a GPU four neighbours for
// each of a warp's threads.
constexpr int kLanes = 128;

// Of a tile or a tensor.
struct Measure {
  double sum_of_squares;
  bool finite;  // No x is infinite or a NaN, though the sum may be infinite.
};

template <typename T>
struct MeasuredTensor {
  const T* gradient;
  const ComputeType<T>* accumulator;  // Null: there is none.
  int64_t size;                       // Elements.
};

template <typename V>
TF_OPT_RULE_INLINE V MeasuredValue(V scale, V gradient) {
  return scale * gradient;
}
template <typename V>
TF_OPT_RULE_INLINE V MeasuredValue(V scale, V gradient, V accumulator) {
  return scale * gradient + accumulator;
}

// The square of what is in a lane's turn.
template <typename V>
TF_OPT_RULE_INLINE double Square(V x) {
  const double wide = x;
  return wide * wide;
}

template <typename V>
TF_OPT_RULE_INLINE bool IsFinite(V x) {
  return x - x == 0;
}

// Whether, of a sparse gradient, the rows that don't occur are measured: where
// there is an accumulator, and where the scale makes no number of a zero.
template <typename V>
TF_OPT_RULE_INLINE bool ZerosCount(bool lazy, const V* accumulator, V scale) {
  return !lazy && (accumulator != nullptr || !IsFinite(scale));
}

// The sum of kCount lanes, a power of two: each of the first half takes in the
// one half of them further on, again and again. Overwrites them.
template <int kCount>
TF_OPT_RULE_INLINE double AddLanes(double* lanes) {
  for (int half = kCount / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_MEASURE_H_
