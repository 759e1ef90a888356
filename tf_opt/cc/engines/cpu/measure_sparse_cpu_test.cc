// The measure of sparse gradients, against that of the dense ones they mean.
#include "tf_opt/cc/engines/cpu/measure_sparse_cpu.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/cpu/measure_cpu.h"
#include "tf_opt/cc/engines/testing/measure_model.h"
#include "tf_opt/cc/engines/testing/sparse_model.h"
#include "tf_opt/cc/engines/testing/test_threads.h"

namespace tf_opt {
namespace {

template <typename T>
class MeasureSparseCpuTest : public testing::Test {};
using Types = testing::Types<Half, BFloat16, float, double>;
TYPED_TEST_SUITE(MeasureSparseCpuTest, Types);

TYPED_TEST(MeasureSparseCpuTest, GivesTheBitsOfTheDenseGradient) {
  using T = TypeParam;
  using V = ComputeType<T>;
  for (const bool special : {false, true}) {
    std::vector<SparseModel<T>> models;
    models.emplace_back(1, 1, 1, special);
    models.emplace_back(5, 3, 0, special);
    models.emplace_back(40, 0, 10, special);
    models.emplace_back(300, 64, 500, special);
    // Rows across tiles, and tiles between rows.
    models.emplace_back(40000, 100, 700, special);
    models.emplace_back(3, 3 * kTileSize / 2, 4, special);
    models[4].AddRow(39999);
    models[4].AddRow(1);
    for (const bool accumulated : {false, true}) {
      for (const bool lazy : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << "special " << special << ", accumulated " << accumulated
                     << ", lazy " << lazy);
        std::vector<SparseGradient<T>> gradients;
        std::vector<std::vector<T>> dense;
        std::vector<std::vector<V>> accumulators, counted;
        for (const auto& model : models) {
          gradients.push_back(model.Gradient());
          dense.push_back(model.Dense());
          accumulators.emplace_back();
          for (size_t i = 0; i < dense.back().size(); ++i) {
            accumulators.back().push_back(std::sin(i));
          }
          counted.push_back(accumulators.back());
          if (!lazy) continue;
          const auto rows = model.OccurringRows();
          for (size_t i = 0; i < counted.back().size(); ++i) {
            if (rows.count(i / model.width()) == 0) counted.back()[i] = 0;
          }
        }
        std::vector<MeasuredTable<T>> tables;
        std::vector<MeasuredTensor<T>> tensors;
        for (size_t i = 0; i < models.size(); ++i) {
          const auto size = static_cast<int64_t>(dense[i].size());
          tables.push_back({&gradients[i],
                            accumulated ? accumulators[i].data() : nullptr,
                            size, lazy});
          tensors.push_back({dense[i].data(),
                             accumulated ? counted[i].data() : nullptr, size});
        }
        const auto expected = MeasureGradients<T>(
            tensors, 0.3, CpuTarget::kBaseline, 1, MustNotRun);
        for (const CpuTarget target : SupportedCpuTargets()) {
          SCOPED_TRACE(CpuTargetName(target));
          for (const int threads : {1, 3}) {
            EXPECT_EQ(
                MeasureSparseGradients<T>(
                    tables, 0.3, target, threads,
                    threads == 1 ? ParallelFor(MustNotRun) : OnThreads(3, 1)),
                expected);
          }
        }
      }
    }
  }
}

// Then zeros are none any more.
TEST(MeasureSparseCpu, AScaleThatIsNotFiniteCountsInAllRows) {
  SparseModel<float> model(3, 2, 0), one(3, 2, 1);
  for (const auto* of : {&model, &one}) {
    const SparseGradient<float> gradient = of->Gradient();
    const std::vector<float> dense = of->Dense();
    for (const double scale :
         std::vector<double>{INFINITY, -INFINITY, NAN, 1e300}) {
      for (const bool lazy : {false, true}) {
        const auto measure = MeasureSparseGradients<float>(
            {{&gradient, nullptr, 6, lazy}}, scale, CpuTarget::kBaseline, 1,
            MustNotRun)[0];
        const auto expected =
            MeasureGradients<float>({{dense.data(), nullptr, 6}}, scale,
                                    CpuTarget::kBaseline, 1, MustNotRun)[0];
        if (lazy) {
          EXPECT_EQ(measure.finite, gradient.count() == 0);
        } else {
          EXPECT_EQ(measure, expected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tf_opt
