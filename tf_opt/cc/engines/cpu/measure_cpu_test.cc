// The CPU engine that measures gradients: the same bits on every instruction
// set and any number of threads, and what long double says.
#include "tf_opt/cc/engines/cpu/measure_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
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
                          tensors, kScale, target, threads,
                          threads == 1 ? MustNotRun : OnThreads(threads)),
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
    GradientRows rows{{}, width};
    for (int64_t row = 0; row < count; ++row) {
      T* const begin = model.gradient(0) + row * width;
      if (row % 3 == 1 || (row > 300 && row < 700)) {
        std::fill_n(begin, width, T());
      } else {
        rows.rows.push_back(row);
        values.insert(values.end(), begin, begin + width);
      }
    }
    const auto measure = [&](const T* gradient,
                             const std::vector<GradientRows>& of) {
      return MeasureGradients<T>({{gradient, dense.accumulator, dense.size}},
                                 kScale, CpuTarget::kBaseline, 1, MustNotRun,
                                 of)[0];
    };
    EXPECT_EQ(measure(values.data(), {rows}), measure(dense.gradient, {}));
  }
}

TYPED_TEST(MeasureCpuTest, IsWhatLongDoubleSays) {
  using T = TypeParam;
  for (const bool accumulated : {false, true}) {
    MeasureModel<T> model(MeasuredSizes(), accumulated);
    const auto tensors = model.Tensors();
    const auto measures = MeasureGradients<T>(
        tensors, kScale, ChosenCpuTarget(), 3, OnThreads(3));
    for (size_t i = 0; i < tensors.size(); ++i) {
      long double sum = 0;
      for (int64_t k = 0; k < tensors[i].size; ++k) {
        const long double x = ExpectedValue(tensors[i], kScale, k);
        sum += x * x;
      }
      // A square and what it is added to are rounded fewer than 90 times: 64
      // times in a tile's lane, twice in a tensor's, seven times in each tree.
      EXPECT_NEAR(measures[i].sum_of_squares, sum, 90 * 0x1p-53 * sum);
      EXPECT_TRUE(measures[i].finite);
    }
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
      return MeasureGradients<T>(tensors, kScale, target, 1, MustNotRun);
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
      const T before = model.gradient(1)[at];
      const bool odd = at % 2 == 1;
      // Infinities and NaNs of the formats.
      model.gradient(1)[at] =
          sizeof(T) == 8
              ? FromBits<T>(odd ? 0x7ff0000000000000 : 0xfff8000000000000)
          : sizeof(T) == 4 ? FromBits<T>(odd ? 0x7f800000 : 0xffc00000)
          : std::is_same<T, Half>::value ? FromBits<T>(odd ? 0x7c00 : 0xfe00)
                                         : FromBits<T>(odd ? 0x7f80 : 0xffc0);
      const auto measures = measure();
      model.gradient(1)[at] = before;
      ASSERT_FALSE(measures[1].finite) << "at " << at;
      ASSERT_EQ(std::isnan(measures[1].sum_of_squares), !odd);
    }
    ASSERT_TRUE(measure()[1].finite);
  }
}

TEST(MeasureCpu, LargeNumbersAreFiniteAlsoWhereTheirSquaresAreNot) {
  std::vector<double> gradient(1000, 1.0);
  std::vector<float> narrow(3 * kTileSize, std::numeric_limits<float>::max());
  for (const CpuTarget target : SupportedCpuTargets()) {
    for (const double large : {1e200, -std::numeric_limits<double>::max()}) {
      gradient[700] = large;
      const auto measures = MeasureGradients<double>(
          {{gradient.data(), nullptr, 1000}}, 1.0, target, 1, MustNotRun);
      EXPECT_TRUE(std::isinf(measures[0].sum_of_squares));
      EXPECT_TRUE(measures[0].finite);
    }
    const auto measures = MeasureGradients<float>(
        {{narrow.data(), nullptr, 3 * kTileSize}}, 1.0, target, 1, MustNotRun);
    EXPECT_TRUE(std::isfinite(measures[0].sum_of_squares));
    EXPECT_TRUE(measures[0].finite);
  }
}

TEST(MeasureCpu, WhatTheScaleMakesInfiniteIsNotFinite) {
  const std::vector<float> gradient(300, 1e38f);
  const auto measures = MeasureGradients<float>(
      {{gradient.data(), nullptr, 300}}, 1e3, ChosenCpuTarget(), 1, MustNotRun);
  EXPECT_FALSE(measures[0].finite);
}

TEST(MeasureCpu, LittleRunsInline) {
  MeasureModel<float> model({100, 1000}, true);
  MeasureGradients<float>(model.Tensors(), 1.0, ChosenCpuTarget(), 8,
                          MustNotRun);
}

TEST(MeasureCpu, OfNothingIsNothing) {
  EXPECT_TRUE(MeasureGradients<float>({}, 1.0, ChosenCpuTarget(), 8, MustNotRun)
                  .empty());
}

}  // namespace
}  // namespace tf_opt
