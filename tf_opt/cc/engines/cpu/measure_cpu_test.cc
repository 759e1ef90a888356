// The CPU engine that measures gradients: the model's bits on every instruction
// set and any number of threads. (tests/test_measure.py has the exact sums.)
#include "tf_opt/cc/engines/cpu/measure_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/testing/measure_model.h"
#include "tf_opt/cc/engines/testing/test_threads.h"

namespace tf_opt {
namespace {

// Not a number of float32, so that it counts to what it is rounded.
constexpr double kScale = 0.3;

template <typename T>
class MeasureCpuTest : public testing::Test {};
using Types = testing::Types<Half, BFloat16, float, double>;
TYPED_TEST_SUITE(MeasureCpuTest, Types);

TYPED_TEST(MeasureCpuTest, EveryTargetAndSplitGivesTheBitsOfTheModel) {
  using T = TypeParam;
  for (const bool accumulated : {false, true}) {
    for (const bool special : {false, true}) {
      for (const int offset : {0, 1}) {
        SCOPED_TRACE(testing::Message()
                     << "accumulated " << accumulated << ", special " << special
                     << ", offset " << offset);
        MeasureModel<T> model(MeasuredSizes(), accumulated, offset);
        if (special) model.AddSpecialNumbers();
        const auto tensors = model.Tensors();
        std::vector<Measure> expected;
        for (const auto& tensor : tensors) {
          expected.push_back(ExpectedMeasure(tensor, kScale));
        }
        for (const CpuTarget target : SupportedCpuTargets()) {
          for (const int threads : {1, 2, 3}) {
            SCOPED_TRACE(testing::Message() << CpuTargetName(target) << ", "
                                            << threads << " threads");
            EXPECT_EQ(MeasureGradients<T>(
                          tensors, kScale, target,
                          threads == 1 ? Unused(1) : OnThreads(threads)),
                      expected);
          }
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
    MeasureModel<T> model({count * width}, /*accumulated=*/true);
    const MeasuredTensor<T> dense = model.Tensors()[0];
    std::vector<T> values;
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < count; ++row) {
      T* const begin = model.gradient(0) + row * width;
      if (row % 3 == 1 || (row > 300 && row < 700)) {
        std::fill_n(begin, width, T());
      } else {
        rows.push_back(row);
        values.insert(values.end(), begin, begin + width);
      }
    }
    const auto measure = [](const MeasuredTensor<T>& tensor) {
      return MeasureGradients<T>({tensor}, kScale, CpuTarget::kBaseline,
                                 Unused(1))[0];
    };
    const GradientRows some = {rows.data(), static_cast<int64_t>(rows.size()),
                               width};
    EXPECT_EQ(measure({values.data(), dense.accumulator, dense.size, some}),
              measure(dense));
  }
}

TYPED_TEST(MeasureCpuTest, FindsWhatIsNotFiniteAtAnyPlace) {
  using T = TypeParam;
  using V = ComputeType<T>;
  constexpr int64_t kSize = 2 * kTileSize + 700;
  constexpr V kInfinity = std::numeric_limits<V>::infinity();
  constexpr V kNan = std::numeric_limits<V>::quiet_NaN();
  MeasureModel<T> model({5, kSize, 5}, true);
  const auto tensors = model.Tensors();
  for (const CpuTarget target : SupportedCpuTargets()) {
    const auto measure = [&] {
      return MeasureGradients<T>(tensors, kScale, target, Unused(1));
    };
    // All lanes, whole chunks and the last one, and every tile.
    for (int64_t at = 0; at < kSize; at += at < 700 ? 1 : 331) {
      for (const V special : {kInfinity, -kInfinity, kNan}) {
        const V before = model.accumulator(1)[at];
        model.accumulator(1)[at] = special;
        const auto measures = measure();
        model.accumulator(1)[at] = before;
        ASSERT_TRUE(measures[0].finite && measures[2].finite);
        ASSERT_FALSE(measures[1].finite) << special << " at " << at;
        ASSERT_EQ(std::isnan(measures[1].sum_of_squares), special != special);
      }
    }
    ASSERT_TRUE(measure()[1].finite);
  }
}

}  // namespace
}  // namespace tf_opt
