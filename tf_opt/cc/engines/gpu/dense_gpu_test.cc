// The GPU engine without a GPU: what each thread does, done one after the
// other, must come to the bits of the CPU engine.
#include "tf_opt/cc/engines/gpu/dense_gpu.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/testing/all_rules.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/engines/testing/hyperparameters.h"
#include "tf_opt/cc/engines/testing/test_threads.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/asgd.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace {

// A step's numbers, and a launch that reads them.
template <typename Description>
struct Step {
  template <typename T, typename Rule>
  void Launch(const std::vector<TensorOf<T, Rule>>& tensors) const {
    GpuInputsOf<Rule> inputs;
    for (const auto& input : Description::kScalars) {
      inputs.scalars.Add(input, input.Address(hyperparameters));
    }
    // Numbers that the host knows.
    inputs.frame.known = frame;
    for (const auto& input : kFrameScalars) {
      inputs.frame.Add(input, input.Address(frame));
    }
    inputs.variables = {{weight_decay.data()},
                        {&others.learning_rate_factor, true},
                        {&others.gradient_factor, true},
                        {&others.number, true}};
    if (rows > 0) inputs.row = GpuRow("batch_index", rows, &row);
    std::vector<double> workspace(
        GpuRules<Rule>::Bytes(tensors.size()) / sizeof(double) + 1);
    EXPECT_EQ((ApplyDenseGpu<T, Rule>(tensors, inputs, workspace.data(),
                                      /*stream=*/nullptr)),
              nullptr);
  }

  template <typename Rule>
  FramedRule<Rule> RuleOf(int variable) const {
    VariableInputs own = others;
    own.weight_decay = weight_decay[variable];
    return {typename Rule::Step(hyperparameters), frame, own};
  }

  typename Description::Hyperparameters hyperparameters;
  FrameInputs frame;
  std::vector<double> weight_decay;
  VariableInputs others;  // The same for all variables.
  int64_t row = 0;
  int64_t rows = 0;
};

// Around vectors and tiles; empty tensors first and in between.
const std::vector<int64_t>& Sizes() {
  static const auto& sizes = *new std::vector<int64_t>(
      {0, 1, 3, 4, 16, 17, 0, kTileSize - 1, kTileSize, 31, kTileSize + 1,
       3 * kTileSize + 5});
  return sizes;
}

template <typename T>
class DenseGpuTest : public testing::Test {};
using Types = testing::Types<Half, BFloat16, float, double>;
TYPED_TEST_SUITE(DenseGpuTest, Types);

template <typename Case>
class DenseGpuRuleTest : public testing::Test {};
TYPED_TEST_SUITE(DenseGpuRuleTest, SomeRules);

TYPED_TEST(DenseGpuRuleTest, GivesTheBitsOfTheCpuEngine) {
  using T = typename TypeParam::T;
  using Rule = typename TypeParam::Rule;
  using Model = DenseModel<T, Rule::kSlots, Rule::kRowWise>;
  using Description = typename Rule::Description;
  if (Rule::kRowWise) GTEST_SKIP() << "composed on GPUs";
  Step<Description> step;
  step.hyperparameters = HyperparametersAt<Description>(3);
  for (size_t i = 0; i < Sizes().size(); ++i) {
    step.weight_decay.push_back(0.01 * i);
  }
  for (const Setting& setting : AllSettings<T, Rule>()) {
    step.frame = setting.frame;
    step.others = {0, 1.5, setting.framed ? 1.25 : 1, 5};
    std::vector<FramedRule<Rule>> rules;
    for (size_t i = 0; i < Sizes().size(); ++i) {
      rules.push_back(step.template RuleOf<Rule>(i));
    }
    // From 1 on no array is aligned for vectors.
    for (const int offset : {0, 1}) {
      SCOPED_TRACE(testing::Message() << setting << ", offset " << offset);
      Model expected(Sizes(), offset, setting);
      Model model(expected);
      ApplyDense<T>(expected.Tensors(), rules, CpuTarget::kBaseline, 1,
                    MustNotRun, setting.frame.update);
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
  ApplyDense<T>(expected.Tensors(), std::vector{step.template RuleOf<Rule>(0)},
                CpuTarget::kBaseline, 1, MustNotRun);
  const auto* const wanted =
      static_cast<V*>(expected.Tensors()[0].template slot<1>().data);

  auto tensors = model.Tensors();
  std::vector<V> table(kRows * kSize, V(7));
  std::memcpy(&table[kRow * kSize], tensors[0].template slot<1>().data,
              kSize * sizeof(V));
  tensors[0].operands[kFrameOperandCount + 1] = table.data();
  step.template Launch<T, Rule>(tensors);
  for (int64_t i = 0; i < kRows * kSize; ++i) {
    ASSERT_EQ(table[i], i / kSize == kRow ? wanted[i % kSize] : V(7))
        << "element " << i;
  }
}

// What it prints is tested from Python, for every op.
TEST(DenseGpu, WritesNothingIfANumberIsOutOfItsRange) {
  using Rule = AdamRule<float, false, false>;
  Step<Adam> step;
  step.weight_decay = {0.0, 0.0};
  step.hyperparameters.step = 0;
  for (const bool enabled : {false, true}) {
    step.frame.enabled = enabled;
    DenseModel<float, 2> model({5, 7}), untouched({5, 7});
    testing::internal::CaptureStdout();
    step.Launch<float, Rule>(model.Tensors());
    EXPECT_TRUE(model.SameBits(untouched));
    EXPECT_EQ(testing::internal::GetCapturedStdout().empty(), !enabled);
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
  EXPECT_LE(sizeof(batches[0]) + sizeof(GpuRules<Rule>), kGpuArgumentBytes);
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
