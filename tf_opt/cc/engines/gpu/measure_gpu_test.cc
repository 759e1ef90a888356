// The GPU engine that measures gradients, without a GPU: what each thread does,
// done one after the other, must come to the bits of the CPU engine.
#include "tf_opt/cc/engines/gpu/measure_gpu.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/cpu/measure_cpu.h"
#include "tf_opt/cc/engines/gpu/measure_gpu_launch.h"
#include "tf_opt/cc/engines/testing/measure_model.h"
#include "tf_opt/cc/engines/testing/test_threads.h"

namespace tf_opt {
namespace {

template <typename T>
std::vector<Measure> MeasureOnCpu(const std::vector<MeasuredTensor<T>>& tensors,
                                  double scale) {
  return MeasureGradients<T>(tensors, scale, CpuTarget::kBaseline, 1,
                             MustNotRun);
}

template <typename T>
std::vector<Measure> MeasureOnGpu(const std::vector<MeasuredTensor<T>>& tensors,
                                  double scale, bool enabled = true) {
  // What nobody writes must not happen to be right.
  std::vector<double> sums(tensors.size(), -1);
  const auto finite = std::make_unique<bool[]>(tensors.size());
  const std::size_t bytes = MeasureWorkspaceBytes(tensors);
  std::vector<Measure> workspace(bytes / sizeof(Measure), {-1, false});
  const char* error = MeasureGradientsGpu<T>(
      tensors, {&scale, &enabled, sums.data(), finite.get()}, workspace.data(),
      nullptr);
  EXPECT_EQ(error, nullptr);
  std::vector<Measure> measures;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    measures.push_back({sums[i], finite[i]});
  }
  return measures;
}

template <typename T>
class MeasureGpuTest : public testing::Test {};
using Types = testing::Types<Half, BFloat16, float, double>;
TYPED_TEST_SUITE(MeasureGpuTest, Types);

TYPED_TEST(MeasureGpuTest, GivesTheBitsOfTheCpuEngine) {
  using T = TypeParam;
  for (const bool accumulated : {false, true}) {
    for (const bool special : {false, true}) {
      // From 1 on nothing is aligned for vectors.
      for (const int offset : {0, 1}) {
        SCOPED_TRACE(testing::Message()
                     << "accumulated " << accumulated << ", special " << special
                     << ", offset " << offset);
        MeasureModel<T> model(MeasuredSizes(), accumulated, offset);
        if (special) model.AddSpecialNumbers();
        const auto tensors = model.Tensors();
        EXPECT_EQ(MeasureOnGpu<T>(tensors, 0.3), MeasureOnCpu<T>(tensors, 0.3));
      }
    }
  }
}

TYPED_TEST(MeasureGpuTest, FindsWhatIsNotFiniteAtAnyPlace) {
  using T = TypeParam;
  constexpr int64_t kSize = kTileSize + 700;
  MeasureModel<T> model({5, kSize, 5}, true);
  const auto tensors = model.Tensors();
  for (int64_t at = 0; at < kSize; at += at < 700 ? 1 : 331) {
    auto& accumulator = model.accumulator(1)[at];
    const auto before = accumulator;
    accumulator = INFINITY;
    const auto measures = MeasureOnGpu<T>(tensors, 1.0);
    accumulator = before;
    ASSERT_TRUE(measures[0].finite && measures[2].finite);
    ASSERT_FALSE(measures[1].finite) << "at " << at;
  }
}

TEST(MeasureGpu, ReadsNothingIfNotEnabled) {
  // A tensor that is not there.
  const std::vector<MeasuredTensor<float>> tensors = {{nullptr, nullptr, 20000},
                                                      {nullptr, nullptr, 0}};
  EXPECT_EQ(MeasureOnGpu<float>(tensors, 1.0, false),
            (std::vector<Measure>{{0, true}, {0, true}}));
}

TEST(MeasureGpu, TensorsOfSeveralLaunchesAreToldApart) {
  constexpr int kCount = 2 * GpuBatch<MeasuredTensor<float>>::kCapacity + 3;
  std::vector<int64_t> sizes;
  for (int i = 0; i < kCount; ++i) sizes.push_back(i % 7 * (i % 300 + 1));
  sizes[GpuBatch<MeasuredTensor<float>>::kCapacity - 1] = 3 * kTileSize + 1;
  sizes[GpuBatch<MeasuredTensor<float>>::kCapacity] = 2 * kTileSize + 1;
  MeasureModel<float> model(sizes, true);
  const auto tensors = model.Tensors();
  const auto batches = PlanGpuBatches(tensors);
  ASSERT_EQ(batches.size(), 3);
  EXPECT_EQ(batches[1].first_tile, batches[0].tiles());
  EXPECT_EQ(batches[2].first_tile, batches[1].first_tile + batches[1].tiles());
  EXPECT_EQ(MeasureWorkspaceBytes(tensors),
            (batches[2].first_tile + batches[2].tiles()) * sizeof(Measure));
  EXPECT_EQ(MeasureOnGpu<float>(tensors, 1.0),
            MeasureOnCpu<float>(tensors, 1.0));
}

// One measures the tiles, one adds them up.
TEST(PlanGpuBatches, ThousandTensorsTakeTwoLaunches) {
  const std::vector<MeasuredTensor<float>> tensors(1000, {.size = 256});
  const auto batches = PlanGpuBatches(tensors);
  ASSERT_EQ(batches.size(), 1);
  EXPECT_EQ(batches[0].count, 1000);
  EXPECT_EQ(batches[0].tiles(), 1000);
  EXPECT_LE(sizeof(batches[0]) + sizeof(GpuMeasureArguments) + sizeof(void*),
            kGpuArgumentBytes);
}

}  // namespace
}  // namespace tf_opt
