// Merged gradients, against the dense ones that they mean.
#include "tf_opt/cc/engines/cpu/merge_cpu.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/testing/sparse_model.h"
#include "tf_opt/cc/engines/testing/test_threads.h"

namespace tf_opt {
namespace {

template <typename T>
class MergeCpuTest : public testing::Test {};
using Types = testing::Types<Half, BFloat16, float, double>;
TYPED_TEST_SUITE(MergeCpuTest, Types);

// Which of two NaNs their sum is depends on the compiler.
template <typename T>
std::vector<T> WithOneNan(std::vector<T> values) {
  for (T& value : values) {
    if (std::isnan(ToDouble(value))) value = FromBits<T>(~uint64_t{0});
  }
  return values;
}

TYPED_TEST(MergeCpuTest, SumsHaveTheBitsOfTheDenseGradient) {
  using T = TypeParam;
  std::vector<SparseModel<T>> models;
  models.emplace_back(1, 1, 1, true);
  models.emplace_back(5, 3, 0);
  models.emplace_back(40, 0, 10);
  models.emplace_back(300, 64, 500, true);
  models.emplace_back(4000, 100, 700);
  models.emplace_back(3, 3 * kTileSize / 2, 4);
  models[4].AddRow(3999);
  models[4].AddRow(1);
  for (const CpuTarget target : SupportedCpuTargets()) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(testing::Message()
                   << CpuTargetName(target) << ", " << threads << " threads");
      std::vector<MergedSlices<T>> merged;
      std::vector<std::vector<T>> sums;
      for (const auto& model : models) {
        const SparseGradient<T> gradient = model.Gradient();
        const std::vector<int64_t> firsts = FirstEntries(gradient);
        sums.emplace_back(firsts.size() * model.width());
        merged.push_back({gradient, firsts, sums.back().data()});
      }
      SumRows(merged, target, threads,
              threads == 1 ? ParallelFor(MustNotRun) : OnThreads(3));
      for (size_t i = 0; i < models.size(); ++i) {
        const int64_t width = models[i].width();
        const std::vector<T> dense = models[i].Dense();
        std::vector<T> expected;
        for (const int64_t row : models[i].OccurringRows()) {
          expected.insert(expected.end(), dense.begin() + row * width,
                          dense.begin() + (row + 1) * width);
        }
        ASSERT_EQ(sums[i].size(), expected.size());
        if (expected.empty()) continue;  // There is no memory to compare.
        EXPECT_EQ(
            std::memcmp(WithOneNan(sums[i]).data(), WithOneNan(expected).data(),
                        expected.size() * sizeof(T)),
            0);
      }
    }
  }
}

}  // namespace
}  // namespace tf_opt
