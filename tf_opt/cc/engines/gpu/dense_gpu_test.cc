// The GPU engine without a GPU: what each thread does, done one after the
// other, must come to the bits of the CPU engine.
#include "tf_opt/cc/engines/gpu/dense_gpu.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/engines/gpu/dense_gpu_launch.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/testing/all_rules.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/engines/testing/gpu_step_model.h"
#include "tf_opt/cc/engines/testing/test_threads.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/asgd.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace {

// A step's numbers, and a launch that reads them.
template <typename Description>
struct Step : GpuStepModel<Description> {
  template <typename T, typename Rule>
  void Launch(const std::vector<DenseTensor<T, Rule::kSlots>>& tensors) const {
    std::vector<double> workspace(
        GpuRules<Rule>::Bytes(tensors.size()) / sizeof(double) + 1);
    const char* error = ApplyDenseGpu<T, Rule>(
        tensors, this->template Inputs<Rule>(), workspace.data(), nullptr);
    EXPECT_EQ(error, nullptr);
  }
};

// Around vectors and tiles; empty tensors first and in between.
const std::vector<int64_t>& Sizes() {
  static const auto& sizes = *new std::vector<int64_t>{0,
                                                       1,
                                                       3,
                                                       4,
                                                       16,
                                                       17,
                                                       0,
                                                       kTileSize - 1,
                                                       kTileSize,
                                                       31,
                                                       kTileSize + 1,
                                                       3 * kTileSize + 5};
  return sizes;
}

template <typename T>
class DenseGpuTest : public testing::Test {};
using Types = testing::Types<Half, BFloat16, float, double>;
TYPED_TEST_SUITE(DenseGpuTest, Types);

template <typename RuleCase>
class DenseGpuRuleTest : public testing::Test {};
TYPED_TEST_SUITE(DenseGpuRuleTest, SomeRules);

TYPED_TEST(DenseGpuRuleTest, GivesTheBitsOfTheCpuEngine) {
  using T = typename TypeParam::T;
  using Rule = typename TypeParam::Rule;
  using Model = DenseModel<T, Rule::kSlots>;
  Step<typename TypeParam::Description> step;
  step.hyperparameters = TypeParam::Hyperparameters();
  std::vector<FramedRule<Rule>> rules;
  for (size_t i = 0; i < Sizes().size(); ++i) {
    step.weight_decay.push_back(0.01 * i);
    rules.emplace_back(Rule(typename Rule::Step(step.hyperparameters),
                            {step.weight_decay.back()}));
  }

  for (const bool special : {false, true}) {
    SCOPED_TRACE(special ? "with special numbers" : "with ordinary numbers");
    // From 1 on no array is aligned for vectors.
    for (const int offset : {0, 1}) {
      SCOPED_TRACE(testing::Message() << "offset " << offset);
      Model expected(Sizes(), offset);
      if (special) expected.AddSpecialNumbers();
      Model model(expected);
      ApplyDense<T>(expected.Tensors(), rules, CpuTarget::kBaseline, 1,
                    MustNotRun);
      step.template Launch<T, Rule>(model.Tensors());
      EXPECT_TRUE(model.SameBits(expected));
      EXPECT_TRUE(model.PaddingIsUntouched());
    }
  }
}

TYPED_TEST(DenseGpuRuleTest, GivesTheBitsOfTheCpuEngineFramed) {
  using T = typename TypeParam::T;
  using Rule = typename TypeParam::Rule;
  using Model = DenseModel<T, Rule::kSlots>;
  Step<typename TypeParam::Description> step;
  step.hyperparameters = TypeParam::Hyperparameters();
  step.weight_decay.assign(Sizes().size(), 0.1);
  step.learning_rate_factor = 1.5;
  step.gradient_factor = 1.25;
  step.variable_number = 5;
  for (const auto& [frame, stored] :
       Pairs(AllFrames(), AllStored<T, typename TypeParam::Description>())) {
    SCOPED_TRACE(testing::Message()
                 << "update " << frame.update << ", overwrite "
                 << frame.overwrite_with_average << ", state "
                 << static_cast<int>(stored.state) << ", master weights "
                 << stored.master_weights);
    step.frame = frame;
    const std::vector<FramedRule<Rule>> rules(
        Sizes().size(),
        FramedRule<Rule>(typename Rule::Step(step.hyperparameters), frame,
                         VariableInputs{0.1, 1.5, 1.25, 5}));
    for (const int offset : {0, 1}) {
      SCOPED_TRACE(testing::Message() << "offset " << offset);
      Model expected(Sizes(), offset, /*framed=*/true, stored);
      expected.AddSpecialNumbers();
      Model model(expected);
      ApplyDense<T>(expected.Tensors(), rules, CpuTarget::kBaseline, 1,
                    MustNotRun, frame.update);
      step.template Launch<T, Rule>(model.Tensors());
      EXPECT_TRUE(model.SameBits(expected));
      EXPECT_TRUE(model.PaddingIsUntouched());
    }
  }
}

TYPED_TEST(DenseGpuTest, UpdatesTheRowOfATableThatTheDeviceNames) {
  using T = TypeParam;
  using V = ComputeType<T>;
  using Rule = AsgdRule<V, false>;
  constexpr int64_t kSize = 2 * kTileSize + 3, kRows = 3, kRow = 1;
  Step<Asgd> step;
  step.weight_decay = {0.25};
  step.row = kRow;
  step.rows = kRows;

  DenseModel<T, 2> expected({kSize}), model({kSize});
  ApplyDense<T>(expected.Tensors(),
                std::vector{FramedRule(Rule(AsgdStep(step.hyperparameters),
                                            {step.weight_decay[0]}))},
                CpuTarget::kBaseline, 1, MustNotRun);

  auto tensors = model.Tensors();
  std::vector<V> table(kRows * kSize, V(7));
  std::memcpy(&table[kRow * kSize], model.slots[1].data(), kSize * sizeof(V));
  tensors[0].operands[kFrameOperandCount + 1] = table.data();
  step.Launch<T, Rule>(tensors);
  for (int64_t i = 0; i < kRows * kSize; ++i) {
    const V wanted = i / kSize == kRow ? expected.slots[1][i % kSize] : V(7);
    ASSERT_EQ(table[i], wanted) << "element " << i;
  }
}

// Launches a step that must not write, and returns what it prints.
template <typename Description, typename Rule>
std::string MessageOf(const Step<Description>& step) {
  DenseModel<float, Rule::kSlots> model({5, 7}), untouched({5, 7});
  testing::internal::CaptureStdout();
  step.template Launch<float, Rule>(model.Tensors());
  EXPECT_TRUE(model.SameBits(untouched));
  return testing::internal::GetCapturedStdout();
}

TEST(DenseGpu, WritesNothingIfANumberIsOutOfItsRange) {
  using Rule = AdamRule<float, false, false>;
  Step<Adam> step;
  step.weight_decay = {0.0, 0.0};
  step.hyperparameters.step = 0;
  EXPECT_EQ((MessageOf<Adam, Rule>(step)),
            "tf_opt: `step` must be >= 1, got 0; nothing was written\n");
  step.hyperparameters.step = 1;
  step.hyperparameters.beta_2 = 1;
  EXPECT_EQ((MessageOf<Adam, Rule>(step)),
            "tf_opt: `beta_2` must be in [0, 1), got 1; nothing was written\n");
  step.hyperparameters.beta_2 = NAN;
  EXPECT_NE((MessageOf<Adam, Rule>(step)), "");
}

TEST(DenseGpu, WritesAndPrintsNothingIfItIsNotEnabled) {
  Step<Adam> step;
  step.weight_decay = {0.0, 0.0};
  step.hyperparameters.step = 0;
  step.frame.enabled = false;
  EXPECT_EQ((MessageOf<Adam, AdamRule<float, false, false>>(step)), "");
}

TEST(DenseGpu, WritesNothingIfANumberOfItsFrameIsOutOfItsRange) {
  Step<Adam> step;
  step.weight_decay = {0.0, 0.0};
  step.frame.ema_momentum = 1.5;
  EXPECT_EQ((MessageOf<Adam, AdamRule<float, false, false>>(step)),
            "tf_opt: `ema_momentum` must be in [0, 1], got 1.5; nothing was "
            "written\n");
}

TEST(DenseGpu, WritesNothingIfThereIsNoSuchRow) {
  using Rule = AsgdRule<float, false>;
  Step<Asgd> step;
  step.weight_decay = {0.0, 0.0};
  step.rows = 3;
  for (const int64_t row : {-1, 3}) {
    step.row = row;
    EXPECT_EQ((MessageOf<Asgd, Rule>(step)),
              "tf_opt: `batch_index` must be in [0, 3), got " +
                  std::to_string(row) + "; nothing was written\n");
  }
}

// One launch more makes the rules.
TEST(PlanGpuBatches, ThousandTensorsTakeFewLaunches) {
  const std::vector<DenseTensor<float, 3>> tensors(1000, {.size = 256});
  const auto batches = PlanGpuBatches(tensors);
  EXPECT_LE(batches.size(), 3);
  int count = 0;
  for (const auto& batch : batches) {
    EXPECT_EQ(batch.first, count);
    EXPECT_EQ(batch.tiles(), batch.count);
    count += batch.count;
  }
  EXPECT_EQ(count, 1000);
  using Rule = AdamRule<float, true, false>;
  EXPECT_LE(sizeof(batches[0]) + sizeof(GpuRules<Rule>) + sizeof(int),
            kGpuArgumentBytes);
}

TEST(PlanGpuBatches, ALargeTensorIsManyTiles) {
  const int64_t size = (int64_t{1} << 31) + 1;
  const std::vector<DenseTensor<float, 2>> tensors(1, {.size = size});
  const auto batches = PlanGpuBatches(tensors);
  ASSERT_EQ(batches.size(), 1);
  EXPECT_EQ(batches[0].tiles(), (size + kTileSize - 1) / kTileSize);
}

TEST(PlanGpuBatches, NothingIsNoLaunch) {
  EXPECT_TRUE(PlanGpuBatches(std::vector<DenseTensor<float, 2>>()).empty());
}

}  // namespace
}  // namespace tf_opt
