// The dense CPU engine: every element once, the same bits on every instruction
// set.
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/engines/testing/all_rules.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/engines/testing/test_threads.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace {

constexpr CpuTarget kBaseline = CpuTarget::kBaseline;

// Around vectors, blocks and pieces; empty tensors first, in between and last.
const std::vector<int64_t>& Sizes() {
  static const auto& sizes = *new std::vector<int64_t>{
      0, 1, 3, 17, 0, 1023, 1024, 1025, 4097, 65537, 31, 0};
  return sizes;
}

// Elements of a row of each.
std::vector<int64_t> Widths() {
  std::vector<int64_t> widths;
  for (const int64_t size : Sizes()) widths.push_back(WidthOf(size));
  return widths;
}

template <typename Case>
class DenseCpuRuleTest : public testing::Test {};
TYPED_TEST_SUITE(DenseCpuRuleTest, TestedRules);

TYPED_TEST(DenseCpuRuleTest, EveryTargetAndSplitGivesTheBitsOfOneAtATime) {
  using T = typename TypeParam::T;
  using Rule = typename TypeParam::Rule;
  using Model = DenseModel<T, Rule>;
  for (const Setting& setting : AllSettings<T>()) {
    SCOPED_TRACE(testing::Message() << setting);

    const auto rules_for = [&](Model* model, CpuTarget target) {
      return TestRules<Rule>(model, Widths(), setting.frame,
                             setting.framed ? 1.25 : 1, target);
    };
    const Model original(Sizes(), setting);
    Model expected(original);
    const auto tensors = expected.Tensors();
    const CpuRules<T> rules = rules_for(&expected, kBaseline);
    const auto& loops = baseline::RangeLoopsOf<T>();
    for (size_t i = 0; i < tensors.size(); ++i) {
      // Or one row at a time.
      const int64_t step = Rule::kRowWise ? rules[i].width : 1;
      for (int64_t j = 0; j < tensors[i].size; j += step) {
        loops.update(rules[i],
                     {tensors[i], tensors[i].gradient() + j, j, j + step});
      }
    }
    ASSERT_FALSE(expected.SameBits(original));
    for (const CpuTarget target : SupportedCpuTargets()) {
      SCOPED_TRACE(CpuTargetName(target));
      for (const int64_t distance : {0, 512}) {
        prefetch_distance = distance;  // As other processors choose it.
        Model split(original);
        ApplyDense(split.Tensors(), rules_for(&split, target), target,
                   OnThreads(3));
        EXPECT_TRUE(split.SameBits(expected));
        EXPECT_TRUE(split.PaddingIsUntouched());
      }
    }
  }
}

TEST(DenseCpu, SmallStepsRunInline) {
  using Rule = AdamRule<float, false>;
  DenseModel<float, Rule> model({100});
  const CpuRules<float> rules = {
      {FramedRule<Rule>(AdamScalars({}), {}, {}), kBaseline}};
  ApplyDense(model.Tensors(), rules, kBaseline, Unused(8));
}

TEST(TileList, OfMoreElementsThan32BitsCount) {
  constexpr int64_t kSize = (int64_t{1} << 45) + 1;
  const TileList tiles({3, kSize});
  EXPECT_EQ(tiles.size(), 1 + kSize / kTileSize + 1);
  EXPECT_EQ(tiles.tensor(tiles.size() - 1), 1);
}

}  // namespace
}  // namespace tf_opt
