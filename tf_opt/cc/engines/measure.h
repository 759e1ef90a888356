// The measure of a gradient, and the order of its additions. All engines share
// the order, so that all compute the same bits.
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

#include <algorithm>
#include <cstdint>

#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// On a CPU, doubles that stay in the first-level cache; on a GPU, four
// neighbours for each thread of a warp.
constexpr int kLanes = 128;

// Measure of a tile or a tensor.
struct Measure {
  double sum_of_squares;
  bool finite;  // False if an x is infinite or NaN. The sum may be infinite
                // anyway.
};

// The rows that a gradient has of its accumulator, ascending. In the others it
// is zero.
struct GradientRows {
  // Calls use(from, to, count) for each part of a row in the elements [begin,
  // begin + size) of the dense gradient: `count` elements, `from` on in the
  // rows that it has, and `to` on in these elements.
  template <typename Use>
  void ForParts(int64_t begin, int64_t size, const Use& use) const {
    const int64_t* const end = numbers + count;
    const int64_t* row = numbers + FirstFrom(begin / width);
    for (; row != end && *row * width < begin + size; ++row) {
      const int64_t row_begin = *row * width;
      const int64_t first = std::max(row_begin, begin);
      const int64_t last = std::min(row_begin + width, begin + size);
      use((row - numbers) * width + (first - row_begin), first - begin,
          last - first);
    }
  }

  // Returns the place of the accumulator's element `at` in the gradient; -1: it
  // has none.
  TF_OPT_RULE_INLINE int64_t Find(int64_t at) const {
    const int64_t row = at / width;
    const int64_t k = FirstFrom(row);
    return k < count && numbers[k] == row ? (k - row) * width + at : -1;
  }

  TF_OPT_RULE_INLINE int64_t FirstFrom(int64_t row) const {
    return FirstWhere(count, [&](int64_t k) { return numbers[k] >= row; });
  }

  const int64_t* numbers = nullptr;
  int64_t count = 0;
  int64_t width = 0;  // Elements of a row.
};

template <typename T>
struct MeasuredTensor {
  // Whether the gradient has only `rows`.
  TF_OPT_RULE_INLINE bool is_sparse() const { return rows.width > 0; }

  const T* gradient;
  const ComputeType<T>* accumulator;  // Null if absent.
  int64_t size;                       // Elements.
  GradientRows rows = {};
};

// How gradients are measured, and the results: a number for each of them. All
// pointers are to the device's memory.
struct MeasureArguments {
  const double* gradient_scale;
  const bool* enabled;  // If false, no gradient is read.
  double* sums_of_squares;
  bool* finite;
};

template <typename V>
TF_OPT_RULE_INLINE V MeasuredValue(V scale, V gradient) {
  return scale * gradient;
}
template <typename V>
TF_OPT_RULE_INLINE V MeasuredValue(V scale, V gradient, V accumulator) {
  return scale * gradient + accumulator;
}

// Square of a lane's next value.
template <typename V>
TF_OPT_RULE_INLINE double Square(V x) {
  const double wide = x;
  return wide * wide;
}

template <typename V>
TF_OPT_RULE_INLINE bool IsFinite(V x) {
  return x - x == 0;
}

// Adds kCount lanes, a power of two: the second half is added to the first,
// again and again. Overwrites them.
template <int kCount>
TF_OPT_RULE_INLINE double AddLanes(double* lanes) {
  if constexpr (kCount > 1) {
    constexpr int kHalf = kCount / 2;
    for (int i = 0; i < kHalf; ++i) lanes[i] += lanes[i + kHalf];
    return AddLanes<kHalf>(lanes);
  }
  return lanes[0];
}

// Mean of the `count` squares that were added to kLanes lanes.
template <typename V>
TF_OPT_RULE_INLINE V MeanOfLanes(double* lanes, int64_t count) {
  // The other lanes are 0: without them the sum is the same.
  const double sum = count <= 16   ? AddLanes<16>(lanes)
                     : count <= 64 ? AddLanes<64>(lanes)
                                   : AddLanes<kLanes>(lanes);
  return static_cast<V>(sum / static_cast<double>(count));
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_MEASURE_H_
