// The measure of sparse gradients by the GPU engine without a GPU: what each
// thread does, done one after the other, against the bits of the CPU engine.
#include "tf_opt/cc/engines/measure_sparse_gpu.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/measure_model.h"
#include "tf_opt/cc/engines/measure_sparse_cpu.h"
#include "tf_opt/cc/engines/measure_sparse_gpu_launch.h"
#include "tf_opt/cc/engines/sparse_gpu_model.h"
#include "tf_opt/cc/engines/sparse_model.h"
#include "tf_opt/cc/engines/test_threads.h"

namespace tf_opt {
namespace {

// Some tables with what was accumulated of them.
template <typename T>
struct Tables {
  using V = ComputeType<T>;

  void Add(int64_t rows, int64_t width, int64_t count, bool special = false) {
    models.emplace_back(rows, width, count, special);
    accumulators.emplace_back();
    for (int64_t i = 0; i < rows * width; ++i) {
      accumulators.back().push_back(std::sin(i));
    }
  }

  const V* accumulator(size_t i, bool accumulated) const {
    return accumulated ? accumulators[i].data() : nullptr;
  }

  std::vector<SparseModel<T>> models;
  std::vector<std::vector<V>> accumulators;
};

template <typename T>
std::vector<Measure> OnCpu(const Tables<T>& tables, bool accumulated,
                           bool lazy) {
  std::vector<SparseGradient<T>> gradients;
  for (const auto& model : tables.models) gradients.push_back(model.Gradient());
  std::vector<MeasuredTable<T>> measured;
  for (size_t i = 0; i < gradients.size(); ++i) {
    measured.push_back({&gradients[i], tables.accumulator(i, accumulated),
                        tables.models[i].rows() * tables.models[i].width(),
                        lazy});
  }
  return MeasureSparseGradients<T>(measured, 0.3, CpuTarget::kBaseline, 1,
                                   MustNotRun);
}

template <typename T>
std::vector<Measure> OnGpu(const Tables<T>& tables,
                           const std::vector<GpuSlices>& slices,
                           bool accumulated, bool lazy, bool enabled = true) {
  std::vector<MeasuredTensor<T>> measured;
  for (size_t i = 0; i < slices.size(); ++i) {
    measured.push_back({tables.models[i].values(),
                        tables.accumulator(i, accumulated),
                        slices[i].rows * slices[i].width});
  }
  const double scale = 0.3;
  std::vector<double> sums(slices.size(), -1);
  const auto finite = std::make_unique<bool[]>(slices.size());
  std::vector<Measure> workspace(
      MeasureSparseWorkspaceBytes(measured, slices) / sizeof(Measure) + 1);
  EXPECT_EQ(
      MeasureSparseGradientsGpu<T>(
          measured, slices, lazy, {&scale, &enabled, sums.data(), finite.get()},
          workspace.data(), nullptr),
      nullptr);
  std::vector<Measure> measures;
  for (size_t i = 0; i < sums.size(); ++i) {
    measures.push_back({sums[i], finite[i]});
  }
  return measures;
}

void ExpectSame(const std::vector<Measure>& measures,
                const std::vector<Measure>& expected) {
  ASSERT_EQ(measures.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(
        SameBits(measures[i].sum_of_squares, expected[i].sum_of_squares))
        << "table " << i << ": " << measures[i].sum_of_squares << ", not "
        << expected[i].sum_of_squares;
    EXPECT_EQ(measures[i].finite, expected[i].finite) << "table " << i;
  }
}

template <typename T>
class MeasureSparseGpuTest : public testing::Test {};
using Types = testing::Types<Half, BFloat16, float, double>;
TYPED_TEST_SUITE(MeasureSparseGpuTest, Types);

TYPED_TEST(MeasureSparseGpuTest, GivesTheBitsOfTheCpuEngine) {
  using T = TypeParam;
  for (const bool special : {false, true}) {
    Tables<T> tables;
    tables.Add(1, 1, 1, special);
    tables.Add(5, 3, 0, special);
    tables.Add(40, 0, 10, special);
    tables.Add(300, 64, 500, special);
    // Rows across tiles, and tiles between rows.
    tables.Add(4000, 100, 30, special);
    tables.Add(3, 3 * kTileSize / 2, 4, special);
    tables.models[4].AddRow(3999);
    tables.models[4].AddRow(1);
    const GpuSlicesModels<int32_t, T> slices(tables.models);
    for (const bool accumulated : {false, true}) {
      for (const bool lazy : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << "special " << special << ", accumulated " << accumulated
                     << ", lazy " << lazy);
        ExpectSame(OnGpu(tables, slices.Slices(), accumulated, lazy),
                   OnCpu(tables, accumulated, lazy));
      }
    }
  }
}

Tables<float> ManyTables() {
  Tables<float> tables;
  for (int i = 0; i < 2 * kGpuTables + 3; ++i) {
    tables.Add(1 + i % 7, 1 + i % 3, 1 + i % 5);
  }
  return tables;
}

TEST(MeasureSparseGpu, ManyTablesTakeSeveralBatches) {
  const auto tables = ManyTables();
  const GpuSlicesModels<int64_t, float> slices(tables.models);
  ExpectSame(OnGpu(tables, slices.Slices(), true, false),
             OnCpu(tables, true, false));
}

TEST(MeasureSparseGpu, ReadsNothingIfItIsNotEnabled) {
  auto tables = ManyTables();
  GpuSlicesModels<int64_t, float> slices(tables.models);
  slices.all[3].indices.back() = -1;
  testing::internal::CaptureStdout();
  const auto measures = OnGpu(tables, slices.Slices(), true, false,
                              /*enabled=*/false);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  ExpectSame(measures, std::vector<Measure>(measures.size(), {0, true}));
}

TEST(MeasureSparseGpu, ARowThatIsNotThereIsPrintedAndNotCounted) {
  const auto tables = ManyTables();
  for (const int i : {3, 2 * kGpuTables + 2}) {
    GpuSlicesModels<int64_t, float> slices(tables.models);
    slices.all[i].indices.back() = -1;
    testing::internal::CaptureStdout();
    const auto measures = OnGpu(tables, slices.Slices(), false, false);
    const std::string number = std::to_string(i);
    const auto& indices = slices.all[i].indices;
    EXPECT_EQ(testing::internal::GetCapturedStdout(),
              "tf_opt: `indices[" + number + "]` must be in [0, " +
                  std::to_string(tables.models[i].rows()) +
                  "), the rows of `variables[" + number + "]`, got -1 at " +
                  std::to_string(indices.size() - 1) +
                  "; it was not counted\n");
    slices.all[i].indices.pop_back();
    ExpectSame(measures, OnGpu(tables, slices.Slices(), false, false));
  }
}

}  // namespace
}  // namespace tf_opt
