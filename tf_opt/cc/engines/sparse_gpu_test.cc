// The sparse GPU engine without a GPU: what each thread does, done one after
// the other, must come to the bits of the CPU engine.
#include "tf_opt/cc/engines/sparse_gpu.h"

#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/all_rules.h"
#include "tf_opt/cc/engines/emulated_convert-inl.h"
#include "tf_opt/cc/engines/gpu_row_sum.h"
#include "tf_opt/cc/engines/gpu_step_model.h"
#include "tf_opt/cc/engines/sparse_cpu.h"
#include "tf_opt/cc/engines/sparse_gpu_launch.h"
#include "tf_opt/cc/engines/sparse_gpu_model.h"
#include "tf_opt/cc/engines/sparse_model.h"
#include "tf_opt/cc/engines/test_threads.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {
namespace {

// Around a warp's threads; few and many rows of which few and many occur;
// nothing; rows that are said without values.
template <typename T>
std::vector<SparseModel<T>> Tables(bool special) {
  std::vector<SparseModel<T>> tables;
  tables.emplace_back(5, 3, 0, special);
  tables.emplace_back(1, 1, 1, special);
  tables.emplace_back(40, 0, 10, special);
  tables.emplace_back(700, 7, 200, special);
  tables.emplace_back(30, kWarpThreads, 50, special);
  tables.emplace_back(20, kWarpThreads + 1, 3, special);
  tables.emplace_back(3, 4 * kWarpThreads - 1, 9, special);
  tables[0].AddRow(4);
  tables[3].AddRow(699);
  tables[3].AddRow(17);
  return tables;
}

template <typename T, int kSlots>
DenseModel<T, kSlots> ModelOf(const std::vector<SparseModel<T>>& tables,
                              bool framed, Stored stored = {}) {
  std::vector<int64_t> sizes;
  for (const auto& table : tables) {
    sizes.push_back(table.rows() * table.width());
  }
  return DenseModel<T, kSlots>(sizes, 0, framed, stored);
}

// Puts a step into a stream.
template <typename T, typename Rule, typename Description>
void Launch(const GpuStepModel<Description>& step,
            const std::vector<SparseModel<T>>& tables,
            const std::vector<GpuSlices>& slices, bool lazy,
            DenseModel<T, Rule::kSlots>* model) {
  auto tensors = model->Tensors();
  for (size_t i = 0; i < tables.size(); ++i) {
    tensors[i].operands[kGradient] = const_cast<T*>(tables[i].values());
  }
  std::vector<int64_t> workspace(
      SparseWorkspaceBytes<Rule>(slices) / sizeof(int64_t) + 1);
  const char* error =
      ApplySparseGpu<T, Rule>(tensors, slices, step.template Inputs<Rule>(),
                              lazy, workspace.data(), nullptr);
  EXPECT_EQ(error, nullptr);
}

template <typename RuleCase>
class SparseGpuRuleTest : public testing::Test {
 protected:
  using T = typename RuleCase::T;
  using Rule = typename RuleCase::Rule;
  using Model = DenseModel<T, Rule::kSlots>;

  template <typename Index>
  static void Check(bool lazy) {
    for (const bool special : {false, true}) {
      const auto tables = Tables<T>(special);
      const GpuSlicesModels<Index, T> slices(tables);
      std::vector<SparseGradient<T>> gradients;
      for (const auto& table : tables) gradients.push_back(table.Gradient());
      GpuStepModel<typename RuleCase::Description> step;
      step.hyperparameters = RuleCase::Hyperparameters();
      step.learning_rate_factor = 1.5;
      step.gradient_factor = 1.25;
      for (size_t i = 0; i < tables.size(); ++i) {
        step.weight_decay.push_back(0.01 * i);
      }
      step.variable_number = 5;
      const std::vector<FrameInputs> frames = AllFrames();
      for (const bool framed : {false, true}) {
        for (const auto& [frame, stored] :
             framed
                 ? Pairs(frames, AllStored<T, typename RuleCase::Description>())
                 : Pairs<FrameInputs, Stored>({FrameInputs()}, {Stored()})) {
          SCOPED_TRACE(testing::Message()
                       << "special " << special << ", framed " << framed
                       << ", update " << frame.update << ", overwrite "
                       << frame.overwrite_with_average << ", state "
                       << static_cast<int>(stored.state) << ", master weights "
                       << stored.master_weights);
          step.frame = frame;
          std::vector<FramedRule<Rule>> rules;
          for (const double weight_decay : step.weight_decay) {
            rules.emplace_back(typename Rule::Step(step.hyperparameters), frame,
                               VariableInputs{weight_decay, 1.5, 1.25, 5});
          }
          const Model original =
              ModelOf<T, Rule::kSlots>(tables, framed, stored);
          Model expected(original), model(original);
          ApplySparse<T>(expected.Tensors(), gradients, rules, lazy,
                         CpuTarget::kBaseline, 1, MustNotRun, frame.update);
          Launch<T, Rule>(step, tables, slices.Slices(), lazy, &model);
          EXPECT_FALSE(expected.SameBits(original));
          EXPECT_TRUE(model.SameBits(expected));
          EXPECT_TRUE(model.PaddingIsUntouched());
        }
      }
    }
  }
};
TYPED_TEST_SUITE(SparseGpuRuleTest, AllRules);

TYPED_TEST(SparseGpuRuleTest, ExactGivesTheBitsOfTheCpuEngine) {
  this->template Check<int32_t>(/*lazy=*/false);
}

TYPED_TEST(SparseGpuRuleTest, LazyGivesTheBitsOfTheCpuEngine) {
  this->template Check<int64_t>(/*lazy=*/true);
}

using AdamOfFloat = AdamRule<float, false, false>;

// More tables than a launch can be told of.
std::vector<SparseModel<float>> ManyTables() {
  std::vector<SparseModel<float>> tables;
  for (int i = 0; i < 2 * kGpuTables + 3; ++i) {
    tables.emplace_back(1 + i % 7, 1 + i % 3, 1 + i % 5);
  }
  return tables;
}

GpuStepModel<Adam> StepOf(const std::vector<SparseModel<float>>& tables) {
  GpuStepModel<Adam> step;
  step.hyperparameters.step = 3;
  for (size_t i = 0; i < tables.size(); ++i) {
    step.weight_decay.push_back(0.001 * i);
  }
  return step;
}

TEST(SparseGpu, ManyTablesTakeSeveralBatches) {
  const auto tables = ManyTables();
  const GpuSlicesModels<int64_t, float> slices(tables);
  const auto step = StepOf(tables);
  std::vector<SparseGradient<float>> gradients;
  std::vector<FramedRule<AdamOfFloat>> rules;
  for (size_t i = 0; i < tables.size(); ++i) {
    gradients.push_back(tables[i].Gradient());
    rules.emplace_back(
        AdamOfFloat(AdamStep(step.hyperparameters), {step.weight_decay[i]}));
  }
  ASSERT_EQ(PlanGpuSlices(slices.Slices()).size(), 3);
  for (const bool lazy : {false, true}) {
    auto expected = ModelOf<float, AdamOfFloat::kSlots>(tables, false);
    auto model = expected;
    ApplySparse<float>(expected.Tensors(), gradients, rules, lazy,
                       CpuTarget::kBaseline, 1, MustNotRun);
    Launch<float, AdamOfFloat>(step, tables, slices.Slices(), lazy, &model);
    EXPECT_TRUE(model.SameBits(expected)) << "lazy " << lazy;
  }
}

// Of a step that must not write anything, what it prints.
std::string MessageOf(const GpuStepModel<Adam>& step,
                      const std::vector<SparseModel<float>>& tables,
                      const GpuSlicesModels<int64_t, float>& slices,
                      bool lazy) {
  const auto untouched = ModelOf<float, AdamOfFloat::kSlots>(tables, false);
  auto model = untouched;
  testing::internal::CaptureStdout();
  Launch<float, AdamOfFloat>(step, tables, slices.Slices(), lazy, &model);
  EXPECT_TRUE(model.SameBits(untouched));
  return testing::internal::GetCapturedStdout();
}

TEST(SparseGpu, WritesNothingIfThereIsNoSuchRow) {
  const auto tables = ManyTables();
  const auto step = StepOf(tables);
  // In the first batch and in the last one.
  for (const int i : {3, 2 * kGpuTables + 2}) {
    const int64_t rows = tables[i].rows();
    for (const int64_t row : {int64_t{-1}, rows, int64_t{1} << 40}) {
      GpuSlicesModels<int64_t, float> slices(tables);
      slices.all[i].indices.back() = row;
      const size_t last = slices.all[i].indices.size() - 1;
      const std::string rest =
          "[" + std::to_string(i) + "]` must be in [0, " +
          std::to_string(rows) + "), the rows of `variables[" +
          std::to_string(i) + "]`, got " + std::to_string(row) + " at ";
      for (const bool lazy : {false, true}) {
        EXPECT_EQ(MessageOf(step, tables, slices, lazy),
                  "tf_opt: `indices" + rest + std::to_string(last) +
                      "; nothing was written\n");
      }
      slices.all[i].indices.back() = 0;
      slices.all[i].more_rows = {0, row, row};
      EXPECT_EQ(
          MessageOf(step, tables, slices, true),
          "tf_opt: `accumulated_rows" + rest + "1; nothing was written\n");
    }
  }
}

TEST(SparseGpu, ReadsNoRowOfAStepThatDoesNotWrite) {
  const auto tables = ManyTables();
  GpuSlicesModels<int64_t, float> slices(tables);
  slices.all[3].indices.back() = -1;
  auto step = StepOf(tables);
  step.frame.enabled = false;
  EXPECT_EQ(MessageOf(step, tables, slices, false), "");
  step.frame.enabled = true;
  step.hyperparameters.step = 0;
  EXPECT_EQ(MessageOf(step, tables, slices, false),
            "tf_opt: `step` must be >= 1, got 0; nothing was written\n");
}

// The sum of a row of one column.
template <typename T>
ComputeType<T> SumOf(const std::vector<T>& values,
                     const std::vector<int64_t>& numbers) {
  GpuSlices slices;
  slices.count = values.size();
  slices.width = 1;
  const std::vector<int64_t> keys(numbers.size(), 5);
  const GpuSortedEntries entries = {keys.data(), numbers.data(),
                                    static_cast<int64_t>(keys.size())};
  return GpuRowSum<EmulatedConvert, T>{values.data(), slices, entries, 0, 5}.At(
      0);
}

TEST(GpuRowSum, AddsInTheOrderOfTheEntries) {
  const std::vector<float> values = {1, 1e8f, -1e8f, 1};
  // The one in between has no values.
  EXPECT_EQ(SumOf(values, {1, 4, 2, 0, 3}), 2);
  EXPECT_EQ(SumOf(values, {0, 1, 2, 3}), 1);
}

TEST(GpuRowSum, OfA16BitRowIsFormedInFloat32AndRoundedOnce) {
  std::vector<BFloat16> values(4, Exactly<BFloat16>(1));
  values.insert(values.begin(), Exactly<BFloat16>(256));
  EXPECT_EQ(SumOf(values, {0, 1, 2, 3, 4}), 260);
  EXPECT_EQ(SumOf(values, {0, 1, 2, 3}), 260);  // 259.
}

TEST(GpuRowSum, IsNeverMinusZero) {
  EXPECT_FALSE(std::signbit(SumOf<float>({-0.0f, -0.0f}, {0, 1})));
}

// Memory that is there only where it is written.
template <typename E>
E* Reserve(int64_t size) {
  void* const memory = mmap(nullptr, size * sizeof(E), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<E*>(memory);
}

TEST(SparseGpu, TheLastRowOfALargeTableIsWhereItLies) {
  constexpr int64_t kRows = (int64_t{1} << 32) + 3, kWidth = 2;
  DenseTensor<float, 2> table;
  table.size = kRows * kWidth;
  const std::vector<float> values = {1, -1};
  const std::vector<int64_t> indices = {kRows - 1};
  table.operands[kGradient] = const_cast<float*>(values.data());
  for (const int operand :
       {int{kVariable}, kFrameOperandCount, kFrameOperandCount + 1}) {
    table.operands[operand] = Reserve<float>(table.size);
    if (table.operands[operand] == nullptr) GTEST_SKIP() << "no such memory";
  }
  GpuSlices slices;
  slices.indices = indices.data();
  slices.count = 1;
  slices.wide = true;
  slices.rows = kRows;
  slices.width = kWidth;
  GpuStepModel<Adam> step;
  step.weight_decay = {0};
  std::vector<int64_t> workspace(
      SparseWorkspaceBytes<AdamOfFloat>({slices}) / sizeof(int64_t) + 1);
  EXPECT_EQ((ApplySparseGpu<float, AdamOfFloat>(
                {table}, {slices}, step.Inputs<AdamOfFloat>(), /*lazy=*/true,
                workspace.data(), nullptr)),
            nullptr);
  EXPECT_LT(table.variable()[table.size - 2], 0);
  EXPECT_GT(table.variable()[table.size - 1], 0);
  for (const int operand :
       {int{kVariable}, kFrameOperandCount, kFrameOperandCount + 1}) {
    munmap(table.operands[operand], table.size * sizeof(float));
  }
}

TEST(KeyBits, AreThoseOfTheKeyThatIsNone) {
  for (const int64_t rows :
       {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{255}, int64_t{256},
        (int64_t{1} << 40) - 1, int64_t{1} << 40}) {
    GpuSlices slices;
    slices.rows = rows;
    const auto batches = PlanGpuSlices({slices});
    const int bits = KeyBits(batches[0]);
    EXPECT_EQ(rows >> bits, 0) << rows;
    EXPECT_TRUE(bits == 1 || rows >> (bits - 1) == 1) << rows;
  }
}

TEST(PlanGpuSlices, NothingIsNoBatch) {
  EXPECT_TRUE(PlanGpuSlices({}).empty());
}

}  // namespace
}  // namespace tf_opt
