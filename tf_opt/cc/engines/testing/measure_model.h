// Gradients for the tests of measuring, and measure.h's definition written once
// more, element by element.
#ifndef TF_OPT_CC_ENGINES_TESTING_MEASURE_MODEL_H_
#define TF_OPT_CC_ENGINES_TESTING_MEASURE_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <vector>

#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/engines/tiles.h"

namespace tf_opt {

template <typename T>
class MeasureModel {
 public:
  MeasureModel(const std::vector<int64_t>& sizes, bool accumulated,
               int offset = 0)
      : model_(sizes, offset, /*framed=*/accumulated) {}

  // See DenseModel.
  void AddSpecialNumbers() { model_.AddSpecialNumbers(); }

  T* gradient(int i) {
    return static_cast<T*>(model_.Tensors()[i].operands[kGradient]);
  }
  ComputeType<T>* accumulator(int i) {
    return model_.Tensors()[i].accumulator();
  }

  std::vector<MeasuredTensor<T>> Tensors() {
    std::vector<MeasuredTensor<T>> tensors;
    for (const auto& tensor : model_.Tensors()) {
      tensors.push_back({tensor.gradient(), tensor.accumulator(), tensor.size});
    }
    return tensors;
  }

 private:
  DenseModel<T, 0> model_;
};

// Measure of element i.
template <typename T>
ComputeType<T> ExpectedValue(const MeasuredTensor<T>& tensor, double scale,
                             int64_t i) {
  using V = ComputeType<T>;
  const V scaled =
      static_cast<V>(scale) * static_cast<V>(ToDouble(tensor.gradient[i]));
  return tensor.accumulator == nullptr ? scaled
                                       : scaled + tensor.accumulator[i];
}

inline double AddedInOrder(const std::vector<double>& terms) {
  std::vector<double> lanes(128);
  for (size_t i = 0; i < terms.size(); ++i) lanes[i % 128] += terms[i];
  while (lanes.size() > 1) {
    std::vector<double> half(lanes.begin(), lanes.begin() + lanes.size() / 2);
    for (size_t i = 0; i < half.size(); ++i) half[i] += lanes[i + half.size()];
    lanes = half;
  }
  return lanes[0];
}

template <typename T>
Measure ExpectedMeasure(const MeasuredTensor<T>& tensor, double scale) {
  std::vector<double> tiles;
  bool finite = true;
  for (int64_t begin = 0; begin < tensor.size; begin += 8192) {
    std::vector<double> squares;
    for (int64_t i = begin; i < std::min(begin + 8192, tensor.size); ++i) {
      const double x = ExpectedValue(tensor, scale, i);
      squares.push_back(x * x);
      finite = finite && std::isfinite(x);
    }
    tiles.push_back(AddedInOrder(squares));
  }
  const double sum = AddedInOrder(tiles);
  return {std::isnan(sum) ? std::nan("") : sum, finite};
}

// Around lanes, what is added of them at a time, and tiles; more tiles than
// lanes; empty tensors first, in between and last.
inline const std::vector<int64_t>& MeasuredSizes() {
  static const auto& sizes = *new std::vector<int64_t>(
      {0, 1, 3, 127, 128, 129, 0, 511, 512, 513, 1025, kTileSize - 1, kTileSize,
       kTileSize + 1, 3 * kTileSize + 5, 130 * kTileSize + 131, 31, 0});
  return sizes;
}

// Compares bits.
inline bool operator==(const Measure& a, const Measure& b) {
  return std::memcmp(&a.sum_of_squares, &b.sum_of_squares, sizeof(double)) ==
             0 &&
         a.finite == b.finite;
}

inline std::ostream& operator<<(std::ostream& to, const Measure& measure) {
  return to << measure.sum_of_squares << (measure.finite ? "" : ", not finite");
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_MEASURE_MODEL_H_
