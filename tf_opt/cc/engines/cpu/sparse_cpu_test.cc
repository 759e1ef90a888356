// The sparse CPU engine and merging: on every instruction set and any number of
// threads the bits of dense gradients that mean the same.
#include "tf_opt/cc/engines/cpu/sparse_cpu.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/engines/cpu/merge_cpu.h"
#include "tf_opt/cc/engines/testing/all_rules.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/engines/testing/sparse_model.h"
#include "tf_opt/cc/engines/testing/test_threads.h"
#include "tf_opt/cc/rules/coasting.h"

namespace tf_opt {
namespace {

// Around blocks, what is summed at a time, and tiles; few and many rows of
// which few and many occur; nothing.
template <typename T>
std::vector<SparseModel<T>> Tables(bool special) {
  std::vector<SparseModel<T>> tables;
  tables.emplace_back(1, 1, 1, special);
  tables.emplace_back(5, 3, 0, special);
  tables.emplace_back(40, 0, 10, special);
  tables.emplace_back(1000, 7, 200, special);
  tables.emplace_back(100, 64, 200, special);
  tables.emplace_back(20, 100, 3, special);
  tables.emplace_back(6, 2 * kSummedColumns + 1, 9, special);
  tables.emplace_back(2, 3 * kTileSize / 2, 4, special);
  tables[3].AddRow(999);
  tables[3].AddRow(17);
  return tables;
}

template <typename T>
std::vector<int64_t> SizesOf(const std::vector<SparseModel<T>>& tables) {
  std::vector<int64_t> sizes;
  for (const auto& table : tables)
    sizes.push_back(table.rows() * table.width());
  return sizes;
}

template <typename T>
std::vector<SparseGradient<T>> GradientsOf(
    const std::vector<SparseModel<T>>& tables) {
  std::vector<SparseGradient<T>> gradients;
  for (const auto& table : tables) gradients.push_back(table.Gradient());
  return gradients;
}

template <typename N>
bool SameBytes(const std::vector<N>& a, const std::vector<N>& b) {
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), a.size() * sizeof(N)) == 0);
}

// Calls use(target, threads), also for all in one piece.
template <typename Use>
void ForTargets(const Use& use) {
  for (const CpuTarget target : SupportedCpuTargets()) {
    SCOPED_TRACE(CpuTargetName(target));
    use(target, OnThreads(3, 1));
  }
  use(ChosenCpuTarget(), Unused(1));
}

// The memory of a table's rows that wait, and of what they missed.
struct WaitingModel {
  // With `used` entries for such steps.
  WaitingModel(int64_t rows, const std::vector<MissedStep>& steps, int used)
      : entries(3) {
    WaitingRows waiting = Rows();
    for (int k = 0; k < used; ++k) waiting.Miss(steps[k]);
    std::mt19937 random(rows);
    for (int64_t row = 0; row < rows; ++row) {
      since.push_back(random() % (used + 1));
    }
  }

  WaitingRows Rows() {
    return {since.data(), static_cast<int64_t>(since.size()), entries.data(),
            static_cast<int64_t>(entries.size())};
  }

  std::vector<float> since;
  std::vector<MissedSteps> entries;
};

template <typename Case>
class SparseCpuRuleTest : public testing::Test {
 protected:
  using T = typename Case::T;
  using Rule = typename Case::Rule;
  using Model = DenseModel<T, Rule>;

  static CpuRules<T> Rules(Model* model,
                           const std::vector<SparseModel<T>>& tables,
                           const FrameInputs& frame,
                           CpuTarget target = CpuTarget::kBaseline) {
    std::vector<int64_t> widths;
    for (const auto& table : tables) widths.push_back(table.width());
    return TestRules<Rule>(model, widths, frame, 1.25, target);
  }

  // What a dense gradient makes of the model, everywhere or in the rows that
  // occur.
  static Model Expected(const Model& original,
                        const std::vector<SparseModel<T>>& tables,
                        const FrameInputs& frame, bool lazy) {
    Model expected(original);
    const auto tensors = expected.Tensors();
    const CpuRules<T> rules = Rules(&expected, tables, frame);
    const auto apply = baseline::RangeLoopsOf<T>().update;
    for (size_t i = 0; i < tables.size(); ++i) {
      const std::vector<T> dense = tables[i].Dense();
      if (!lazy) {
        apply(rules[i], {tensors[i], dense.data(), 0, tensors[i].size});
        continue;
      }
      const int64_t width = tables[i].width();
      for (const int64_t row : tables[i].OccurringRows()) {
        apply(rules[i], {tensors[i], dense.data() + row * width, row * width,
                         (row + 1) * width});
      }
    }
    return expected;
  }

  // Steps that rows of table i miss, of different sizes.
  static std::vector<MissedStep> Missed(int i) {
    std::vector<MissedStep> steps;
    for (int k = 0; k < 4; ++k) {
      auto hyperparameters = HyperparametersAt<typename Rule::Description>(3);
      hyperparameters.learning_rate /= 1 + k;
      steps.push_back(
          MissedStepOf<Rule>(typename Rule::Scalars(hyperparameters), {},
                             VariableInputs{0.01 * i, 1.5}));
    }
    return steps;
  }

  // Calls use(tables, frame, original) for each setting of a step.
  template <typename Use>
  static void ForSettings(const Use& use) {
    for (const bool special : {false, true}) {
      const auto tables = Tables<T>(special);
      auto all_stored = AllStored<T>();
      if (special) all_stored = {all_stored.back()};
      for (const auto& [frame, stored] : Pairs(AllFrames(), all_stored)) {
        const Setting setting{frame, stored, /*framed=*/true, special};
        SCOPED_TRACE(testing::Message() << setting);
        use(tables, frame, Model(SizesOf(tables), setting));
      }
    }
  }

  // Applies sparse gradients, after rows have caught up if some wait.
  static void Check(bool lazy, bool waits) {
    ForSettings([=](const auto& tables, const FrameInputs& frame,
                    const Model& original) {
      const auto gradients = GradientsOf(tables);
      std::vector<MissedStep> missed;
      std::vector<WaitingModel> waiting;
      for (size_t i = 0; waits && i < tables.size(); ++i) {
        missed.push_back(Missed(i).back());
        // From 0 steps to as many as there is room for.
        waiting.emplace_back(tables[i].rows(), Missed(i), (i + 3) % 4);
      }
      const auto apply = [&](CpuTarget target, const CpuThreads& threads,
                             Model* model, std::vector<WaitingModel>* all) {
        std::vector<WaitingRows> rows;
        for (WaitingModel& one : *all) rows.push_back(one.Rows());
        ApplySparse(model->Tensors(), gradients,
                    Rules(model, tables, frame, target), lazy, target, threads,
                    rows, missed);
      };
      Model expected(original);
      std::vector<WaitingModel> expected_waiting = waiting;
      if (waits) {
        apply(CpuTarget::kBaseline, Unused(1), &expected, &expected_waiting);
      } else {
        expected = Expected(original, tables, frame, lazy);
      }
      // Catching up alone may move no row.
      ASSERT_TRUE((waits && !frame.update) || !expected.SameBits(original));
      ForTargets([&](CpuTarget target, const CpuThreads& threads) {
        Model model(original);
        std::vector<WaitingModel> found = waiting;
        apply(target, threads, &model, &found);
        EXPECT_TRUE(model.SameBits(expected)) << threads.count << " threads";
        EXPECT_TRUE(model.PaddingIsUntouched());
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(SameBytes(found[i].since, expected_waiting[i].since));
          EXPECT_TRUE(SameBytes(found[i].entries, expected_waiting[i].entries));
        }
      });
    });
  }
};
TYPED_TEST_SUITE(SparseCpuRuleTest, DifferentRules);

TYPED_TEST(SparseCpuRuleTest, ExactGivesTheBitsOfADenseGradient) {
  this->Check(/*lazy=*/false, /*waits=*/false);
}

TYPED_TEST(SparseCpuRuleTest, LazyGivesThemToTheRowsThatOccurAlone) {
  this->Check(/*lazy=*/true, /*waits=*/false);
}

// Each rule coasts by its own function. The engine takes one step as any other
// (tests/test_catch_up.py has exact training, and the composed step's bits).
template <typename Case>
class WaitingRowsTest : public SparseCpuRuleTest<Case> {};
TYPED_TEST_SUITE(WaitingRowsTest, TestedRules);

TYPED_TEST(WaitingRowsTest, CatchUpBeforeAnUpdate) {
  if constexpr (TypeParam::Rule::Description::kCoasts) {
    this->Check(/*lazy=*/true, /*waits=*/true);
    this->Check(/*lazy=*/false, /*waits=*/true);
  }
}

template <typename T>
class MergeCpuTest : public testing::Test {};
using Types = testing::Types<Half, BFloat16, float, double>;
TYPED_TEST_SUITE(MergeCpuTest, Types);

TYPED_TEST(MergeCpuTest, SumsHaveTheBitsOfTheDenseGradient) {
  using T = TypeParam;
  // Which of two NaNs their sum is depends on the compiler.
  const auto tables = Tables<T>(/*special=*/false);
  const auto gradients = GradientsOf(tables);
  ForTargets([&](CpuTarget target, const CpuThreads& threads) {
    std::vector<MergedSlices<T>> merged;
    std::vector<std::vector<T>> sums;
    for (const auto& gradient : gradients) {
      const std::vector<int64_t> firsts = FirstEntries(gradient);
      sums.emplace_back(firsts.size() * gradient.width);
      merged.push_back({gradient, firsts, sums.back().data()});
    }
    SumRows(merged, target, threads);
    for (size_t i = 0; i < tables.size(); ++i) {
      std::vector<T> expected;
      const std::vector<T> dense = tables[i].Dense();
      for (const int64_t row : tables[i].OccurringRows()) {
        const auto begin = dense.begin() + row * tables[i].width();
        expected.insert(expected.end(), begin, begin + tables[i].width());
      }
      EXPECT_TRUE(SameBytes(sums[i], expected));
    }
  });
}

template <typename Index>
void CheckSort(Index rows) {
  using Entry = RowEntry<Index>;
  std::mt19937_64 random(5);
  for (const int count : {0, 1, 2, 5000}) {
    std::vector<Entry> entries;
    for (int i = 0; i < count; ++i) {
      // Rows that occur again, the last one among them.
      const Index row = rows - 1 - random() % 700 * (rows / 1000);
      entries.push_back({row % rows, i});
    }
    auto expected = entries;
    std::stable_sort(
        expected.begin(), expected.end(),
        [](const Entry& a, const Entry& b) { return a.row < b.row; });
    std::vector<Entry> room(count);
    const Entry* const sorted =
        SortByRow<Index>(rows, count, entries.data(), room.data());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), sorted,
                           [](const Entry& a, const Entry& b) {
                             return a.row == b.row && a.position == b.position;
                           }))
        << rows << " rows, " << count << " entries";
  }
}

TEST(SortByRow, IsAStableSort) {
  for (const int32_t rows : {1, 2, 100, 2048, 2049, 1 << 22, INT32_MAX}) {
    CheckSort<int32_t>(rows);
    CheckSort<int64_t>(rows);
  }
  CheckSort<int64_t>(int64_t{1} << 40);
  CheckSort<int64_t>(INT64_MAX);
}

}  // namespace
}  // namespace tf_opt
