// The GPU engine without a GPU: what each thread does, done one after the
// other, must come to the bits of the CPU engine.
#include "tf_opt/cc/engines/dense_gpu.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/dense_cpu.h"
#include "tf_opt/cc/engines/dense_model.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/asgd.h"

#define TF_OPT_CPU_TARGET gpu_test
#include "tf_opt/cc/engines/float_conversion-inl.h"

namespace tf_opt {
namespace {

constexpr int kThreads = 96;

struct HostConvert {
  static float Widen(Half x) { return gpu_test::ToFloat(x); }
  static float Widen(BFloat16 x) { return gpu_test::ToFloat(x); }
  static float Widen(float x) { return x; }
  static double Widen(double x) { return x; }
  static Half Narrow(float x, Half) { return gpu_test::ToHalf(x); }
  static BFloat16 Narrow(float x, BFloat16) { return gpu_test::ToBFloat16(x); }
  static float Narrow(float x, float) { return x; }
  static double Narrow(double x, double) { return x; }
};

template <typename T, typename Rule, typename Step>
void Launch(const std::vector<DenseTensor<T, Rule::kSlots>>& tensors,
            const GpuScalars<Step>& scalars) {
  for (const auto& batch : PlanGpuBatches(tensors)) {
    for (int32_t block = 0; block < batch.chunks(); ++block) {
      for (int thread = 0; thread < kThreads; ++thread) {
        GpuThread<HostConvert, T, Rule>::Run(batch, scalars, block, thread,
                                             kThreads);
      }
    }
  }
}

void MustNotRun(int64_t, int64_t,
                const std::function<void(int64_t, int64_t)>&) {
  FAIL() << "one thread was asked for";
}

// Around vectors and chunks; empty tensors first and in between.
const std::vector<int64_t>& Sizes() {
  static const auto& sizes = *new std::vector<int64_t>{0,
                                                       1,
                                                       3,
                                                       4,
                                                       16,
                                                       17,
                                                       0,
                                                       kGpuChunk - 1,
                                                       kGpuChunk,
                                                       31,
                                                       kGpuChunk + 1,
                                                       3 * kGpuChunk + 5};
  return sizes;
}

template <typename T>
class DenseGpuTest : public testing::Test {};
using Types = testing::Types<Half, BFloat16, float, double>;
TYPED_TEST_SUITE(DenseGpuTest, Types);

TYPED_TEST(DenseGpuTest, GivesTheBitsOfTheCpuEngine) {
  using T = TypeParam;
  using Rule = AdamRule<ComputeType<T>, true, true>;
  AdamHyperparameters hyperparameters;
  hyperparameters.step = 3;
  const AdamStep step(hyperparameters);
  std::vector<double> weight_decay;
  std::vector<Rule> rules;
  for (size_t i = 0; i < Sizes().size(); ++i) {
    weight_decay.push_back(0.01 * i);
    rules.emplace_back(step, weight_decay.back());
  }

  DenseModel<T, 3> expected(Sizes());
  ApplyDense<T>(expected.Tensors(), rules, CpuTarget::kBaseline, 1, MustNotRun);
  // From 1 on no array is aligned for vectors.
  for (const int offset : {0, 1}) {
    DenseModel<T, 3> model(Sizes(), offset);
    Launch<T, Rule>(model.Tensors(),
                    GpuScalars<AdamStep>{&step, weight_decay.data()});
    EXPECT_TRUE(model.SameBits(expected)) << "offset " << offset;
    EXPECT_TRUE(model.PaddingIsUntouched()) << "offset " << offset;
  }
}

TYPED_TEST(DenseGpuTest, UpdatesTheRowOfATableThatTheDeviceNames) {
  using T = TypeParam;
  using V = ComputeType<T>;
  using Rule = AsgdRule<V, false>;
  constexpr int64_t kSize = 2 * kGpuChunk + 3, kRows = 3, kRow = 1;
  const AsgdStep step{AsgdHyperparameters()};
  const double weight_decay = 0.25;

  DenseModel<T, 2> expected({kSize}), model({kSize});
  ApplyDense<T>(expected.Tensors(), std::vector{Rule(step, weight_decay)},
                CpuTarget::kBaseline, 1, MustNotRun);

  auto tensors = model.Tensors();
  std::vector<V> table(kRows * kSize, V(7));
  std::memcpy(&table[kRow * kSize], tensors[0].slots[1], kSize * sizeof(V));
  tensors[0].slots[1] = table.data();
  GpuScalars<AsgdStep> scalars{&step, &weight_decay};
  scalars.table_slot = 1;
  scalars.row = &kRow;
  Launch<T, Rule>(tensors, scalars);
  for (int64_t i = 0; i < kRows * kSize; ++i) {
    const V wanted =
        i / kSize == kRow ? expected.Tensors()[0].slots[1][i % kSize] : V(7);
    ASSERT_EQ(table[i], wanted) << "element " << i;
  }
}

TEST(PlanGpuBatches, ThousandTensorsTakeFewLaunches) {
  const std::vector<DenseTensor<float, 3>> tensors(1000, {.size = 256});
  const auto batches = PlanGpuBatches(tensors);
  EXPECT_LE(batches.size(), 4);
  int count = 0;
  for (const auto& batch : batches) {
    EXPECT_EQ(batch.first, count);
    EXPECT_EQ(batch.chunks(), batch.count);
    count += batch.count;
  }
  EXPECT_EQ(count, 1000);
  EXPECT_LE(sizeof(batches[0]) + sizeof(GpuScalars<AdamStep>),
            kGpuArgumentBytes);
}

TEST(PlanGpuBatches, ALargeTensorIsManyChunks) {
  const int64_t size = (int64_t{1} << 31) + 1;
  const std::vector<DenseTensor<float, 2>> tensors(1, {.size = size});
  const auto batches = PlanGpuBatches(tensors);
  ASSERT_EQ(batches.size(), 1);
  EXPECT_EQ(batches[0].chunks(), (size + kGpuChunk - 1) / kGpuChunk);
}

TEST(PlanGpuBatches, NothingIsNoLaunch) {
  EXPECT_TRUE(PlanGpuBatches(std::vector<DenseTensor<float, 2>>()).empty());
}

}  // namespace
}  // namespace tf_opt
