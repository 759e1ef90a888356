// The sparse CPU engine, against the dense one with the gradients that are
// meant.
#include "tf_opt/cc/engines/cpu/sparse_cpu.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/engines/testing/all_rules.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/engines/testing/sparse_model.h"
#include "tf_opt/cc/engines/testing/test_threads.h"

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
  tables.emplace_back(3000, 7, 200, special);
  tables.emplace_back(300, 64, 500, special);
  tables.emplace_back(20, 100, 3, special);
  tables.emplace_back(6, 2 * kSummedColumns + 1, 9, special);
  tables.emplace_back(3, 3 * kTileSize / 2, 4, special);
  tables[3].AddRow(2999);
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

template <typename RuleCase>
class SparseCpuRuleTest : public testing::Test {
 protected:
  using T = typename RuleCase::T;
  using Rule = typename RuleCase::Rule;
  using Model = DenseModel<T, Rule::kSlots>;

  static std::vector<FramedRule<Rule>> Rules(int count,
                                             const FrameInputs& frame) {
    std::vector<FramedRule<Rule>> rules;
    for (int i = 0; i < count; ++i) {
      rules.emplace_back(typename Rule::Step(RuleCase::Hyperparameters()),
                         frame, VariableInputs{0.01 * i, 1.5, 1.25, double(i)});
    }
    return rules;
  }

  // What a dense gradient makes of the model, everywhere or in the rows that
  // occur.
  static Model Expected(const Model& original,
                        const std::vector<SparseModel<T>>& tables,
                        const std::vector<FramedRule<Rule>>& rules, bool lazy,
                        bool update) {
    Model expected(original);
    const auto tensors = expected.Tensors();
    const auto apply = RangeFunctionFor<T, Rule>(CpuTarget::kBaseline, update);
    for (size_t i = 0; i < tables.size(); ++i) {
      const std::vector<T> dense = tables[i].Dense();
      auto tensor = tensors[i];
      tensor.operands[kGradient] = const_cast<T*>(dense.data());
      if (!lazy) {
        apply(rules[i], tensor, 0, tensor.size);
        continue;
      }
      const int64_t width = tables[i].width();
      for (const int64_t row : tables[i].OccurringRows()) {
        apply(rules[i], tensor, row * width, (row + 1) * width);
      }
    }
    return expected;
  }

  static void Check(bool lazy) {
    for (const bool special : {false, true}) {
      const auto tables = Tables<T>(special);
      const auto gradients = GradientsOf(tables);
      auto all_stored = AllStored<T, Rule>();
      if (special) all_stored = {all_stored.back()};
      for (const auto& [frame, stored] : Pairs(AllFrames(), all_stored)) {
        SCOPED_TRACE(testing::Message()
                     << "special " << special << ", update " << frame.update
                     << ", overwrite " << frame.overwrite_with_average
                     << ", state " << static_cast<int>(stored.state)
                     << ", master weights " << stored.master_weights);
        const auto rules = Rules(tables.size(), frame);
        const Model original(SizesOf(tables), 0, /*framed=*/true, stored);
        const Model expected =
            Expected(original, tables, rules, lazy, frame.update);
        ASSERT_FALSE(expected.SameBits(original));
        for (const CpuTarget target : SupportedCpuTargets()) {
          SCOPED_TRACE(CpuTargetName(target));
          Model split(original);
          ApplySparse<T>(split.Tensors(), gradients, rules, lazy, target, 3,
                         OnThreads(3, 1), frame.update);
          EXPECT_TRUE(split.SameBits(expected));
          EXPECT_TRUE(split.PaddingIsUntouched());
          Model alone(original);
          ApplySparse<T>(alone.Tensors(), gradients, rules, lazy, target, 1,
                         MustNotRun, frame.update);
          EXPECT_TRUE(alone.SameBits(expected)) << "in one piece";
        }
      }
    }
  }
};
TYPED_TEST_SUITE(SparseCpuRuleTest, SomeRules);

TYPED_TEST(SparseCpuRuleTest, ExactGivesTheBitsOfADenseGradient) {
  this->Check(/*lazy=*/false);
}

TYPED_TEST(SparseCpuRuleTest, LazyGivesThemToTheRowsThatOccurAlone) {
  this->Check(/*lazy=*/true);
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
