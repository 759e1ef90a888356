// The CPU engine that measures gradients: the same bits on every instruction
// set and any number of threads, and of rows as of the dense gradient.
// (tests/test_measure.py has the exact sums, and tests/gpu compares the order
// of the additions with that of the GPU's engine.)
#include "tf_opt/cc/engines/cpu/measure_cpu.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/engines/testing/test_threads.h"
#include "tf_opt/cc/rules/sgd.h"

namespace tf_opt {

// Compares bits.
bool operator==(const Measure& a, const Measure& b) {
  return std::memcmp(&a.sum_of_squares, &b.sum_of_squares, sizeof(double)) ==
             0 &&
         a.finite == b.finite;
}
std::ostream& operator<<(std::ostream& to, const Measure& measure) {
  return to << measure.sum_of_squares << (measure.finite ? "" : ", not finite");
}

namespace {

// Not a number of float32, so that it counts to what it is rounded.
constexpr double kScale = 0.3;

// Gradients and accumulators, for a rule without slots.
template <typename T>
using Model = DenseModel<T, SgdRule<ComputeType<T>, false>>;

template <typename T>
std::vector<Measure> Measured(const std::vector<MeasuredTensor<T>>& tensors) {
  return MeasureGradients(tensors, kScale, CpuTarget::kBaseline, Unused(1));
}

template <typename T>
class MeasureCpuTest : public testing::Test {};
using Types = testing::Types<Half, BFloat16, float, double>;
TYPED_TEST_SUITE(MeasureCpuTest, Types);

TYPED_TEST(MeasureCpuTest, EveryTargetAndSplitGivesTheSameBits) {
  using T = TypeParam;
  for (const bool accumulated : {false, true}) {
    for (const bool special : {false, true}) {
      const Setting setting = {{}, {}, /*framed=*/accumulated, special};
      Model<T> model(MeasuredSizes(), setting, /*offset=*/special);
      std::vector<MeasuredTensor<T>> tensors;
      for (const auto& tensor : model.Tensors()) {
        tensors.push_back(
            {tensor.gradient(), tensor.accumulator(), tensor.size});
      }
      for (const CpuTarget target : SupportedCpuTargets()) {
        for (const int threads : {2, 3}) {
          EXPECT_EQ(
              MeasureGradients(tensors, kScale, target, OnThreads(threads)),
              Measured(tensors))
              << CpuTargetName(target) << ", " << threads << " threads";
        }
      }
    }
  }
}

TYPED_TEST(MeasureCpuTest, RowsHaveTheBitsOfTheDenseGradient) {
  using T = TypeParam;
  // Rows within tiles, across them, and of no element.
  for (const int64_t width : {0, 1, 100, 3 * 8192 / 2}) {
    const int64_t count = width > 1000 ? 7 : 1000;
    Model<T> model({count * width}, {{}, {}, /*framed=*/true});
    const DenseTensor<T> dense = model.Tensors()[0];
    std::vector<T> values;
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < count; ++row) {
      T* const begin = static_cast<T*>(dense.operands[kGradient]) + row * width;
      if (row % 3 == 1 || (row > 300 && row < 700)) {
        std::fill_n(begin, width, T());
      } else {
        rows.push_back(row);
        values.insert(values.end(), begin, begin + width);
      }
    }
    const GradientRows some = {rows.data(), static_cast<int64_t>(rows.size()),
                               width};
    EXPECT_EQ(
        Measured<T>({{values.data(), dense.accumulator(), dense.size, some}}),
        Measured<T>({{dense.gradient(), dense.accumulator(), dense.size}}));
  }
}

}  // namespace
}  // namespace tf_opt
