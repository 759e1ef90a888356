// The dense CPU engine: every element once, the same bits on every instruction
// set, 16-bit floats rounded as IEEE 754 says.
#include <algorithm>
#include <cmath>
#include <type_traits>
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
  using Model = DenseModel<T, Rule::kSlots, Rule::kRowWise>;
  for (const Setting& setting : AllSettings<T, Rule>()) {
    SCOPED_TRACE(testing::Message() << setting);

    const auto rules_for = [&](Model* model, CpuTarget target) {
      return TestRules<Rule>(model, Widths(), setting.frame,
                             setting.framed ? 1.25 : 1, target);
    };
    const Model original(Sizes(), 0, setting);
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
  DenseModel<float, 2> model({100});
  const CpuRules<float> rules = {
      {FramedRule<Rule>(AdamScalars({}), {}, {}), kBaseline}};
  ApplyDense(model.Tensors(), rules, kBaseline, Unused(8));
}

// With a gradient of 0 only the decay remains: a rule that multiplies its
// variable by a factor shows what loading and storing do.
template <typename T>
std::vector<T> Multiplied(std::vector<T> values, CpuTarget target,
                          double factor) {
  using Rule = AdamRule<float, false>;
  AdamHyperparameters h;
  h.learning_rate = 1 - factor;
  std::vector<T> gradient(values.size(), FromBits<T>(0));
  std::vector<float> m(values.size()), v(values.size());
  DenseTensor<T> tensor;
  tensor.operands[kVariable] = values.data();
  tensor.operands[kGradient] = gradient.data();
  tensor.operands[kFrameOperandCount] = m.data();
  tensor.operands[kFrameOperandCount + 1] = v.data();
  tensor.size = static_cast<int64_t>(values.size());
  const CpuRules<T> rules = {
      {FramedRule<Rule>(AdamScalars(h), {}, {/*weight_decay=*/1.0}), target}};
  ApplyDense<T>({tensor}, rules, target, Unused(1));
  return values;
}

template <typename T>
class SixteenBitTest : public testing::Test {};
using SixteenBitTypes = testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(SixteenBitTest, SixteenBitTypes);

TYPED_TEST(SixteenBitTest, EveryNumberIsRoundedToTheNearestAndTiesToEven) {
  using T = TypeParam;
  constexpr bool kIsHalf = std::is_same<T, Half>::value;
  constexpr int kDigits = kIsHalf ? 11 : 8;
  constexpr int kSmallestExponent = kIsHalf ? -24 : -133;
  constexpr double kLargest = kIsHalf ? 0x1.ffcp15 : 0x1.fep127;
  constexpr uint16_t kNan = kIsHalf ? kHalfNan : kBFloat16Nan;
  std::vector<T> all;
  for (int bits = 0; bits < 1 << 16; ++bits) all.push_back(FromBits<T>(bits));
  for (const CpuTarget target : SupportedCpuTargets()) {
    // A half makes ties among subnormals, 13/16 and 3/2 everywhere, 3/2 also
    // overflows.
    for (const double factor : {1.0, 0.5, 0.8125, 1.5}) {
      const std::vector<T> stored = Multiplied(all, target, factor);
      for (int bits = 0; bits < 1 << 16; ++bits) {
        const double exact = ToDouble(all[bits]) * factor;
        int exponent;
        std::frexp(exact, &exponent);
        const double last_place =
            std::ldexp(1, std::max(exponent - kDigits, kSmallestExponent));
        double nearest = std::nearbyint(exact / last_place) * last_place;
        if (std::fabs(nearest) > kLargest) {
          nearest = std::copysign(INFINITY, exact);
        }
        ASSERT_TRUE(std::isnan(exact) ? stored[bits].bits == kNan
                                      : ToDouble(stored[bits]) == nearest)
            << std::hex << bits << " * " << factor << " on "
            << CpuTargetName(target);
      }
    }
  }
}

TEST(TileList, OfMoreElementsThan32BitsCount) {
  constexpr int64_t kSize = (int64_t{1} << 45) + 1;
  const TileList tiles({3, kSize});
  EXPECT_EQ(tiles.size(), 1 + kSize / kTileSize + 1);
  EXPECT_EQ(tiles.tensor(tiles.size() - 1), 1);
}

}  // namespace
}  // namespace tf_opt
