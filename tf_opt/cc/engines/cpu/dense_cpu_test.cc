// The dense CPU engine: every element once, the same bits on every instruction
// set, 16-bit floats rounded as IEEE 754 says.
#include "tf_opt/cc/engines/cpu/dense_cpu.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tf_opt/cc/engines/testing/all_rules.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/engines/testing/test_threads.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace {

constexpr CpuTarget kBaseline = CpuTarget::kBaseline;

template <typename T>
class DenseCpuTest : public testing::Test {};
using Types = testing::Types<Half, BFloat16, float, double>;
TYPED_TEST_SUITE(DenseCpuTest, Types);

// Around vectors, blocks and pieces; empty tensors first, in between and last.
const std::vector<int64_t>& Sizes() {
  static const auto& sizes = *new std::vector<int64_t>{
      0, 1, 3, 17, 0, 1023, 1024, 1025, 4097, 65537, 31, 0};
  return sizes;
}

template <typename RuleCase>
class DenseCpuRuleTest : public testing::Test {};
TYPED_TEST_SUITE(DenseCpuRuleTest, AllRules);

TYPED_TEST(DenseCpuRuleTest, EveryTargetAndSplitGivesTheBitsOfOneAtATime) {
  using T = typename TypeParam::T;
  using Rule = typename TypeParam::Rule;
  using Model = DenseModel<T, Rule::kSlots>;
  std::vector<FramedRule<Rule>> rules;
  for (size_t i = 0; i < Sizes().size(); ++i) {
    rules.emplace_back(
        Rule(typename Rule::Step(TypeParam::Hyperparameters()), {0.01 * i}));
  }

  for (const bool special : {false, true}) {
    SCOPED_TRACE(special ? "with special numbers" : "with ordinary numbers");
    Model original(Sizes());
    if (special) original.AddSpecialNumbers();
    Model expected(original);
    const auto tensors = expected.Tensors();
    for (size_t i = 0; i < tensors.size(); ++i) {
      for (int64_t j = 0; j < tensors[i].size; ++j) {
        RangeFunctionFor<T, Rule>(kBaseline)(rules[i], tensors[i], j, j + 1);
      }
    }
    ASSERT_FALSE(expected.SameBits(original));

    for (const CpuTarget target : SupportedCpuTargets()) {
      SCOPED_TRACE(CpuTargetName(target));
      Model alone(original);
      ApplyDense<T>(alone.Tensors(), rules, target, 1, MustNotRun);
      EXPECT_TRUE(alone.SameBits(expected)) << "in one piece";
      Model split(original);
      ApplyDense<T>(split.Tensors(), rules, target, 3, OnThreads(3));
      EXPECT_TRUE(split.SameBits(expected)) << "in pieces on threads";
    }
  }
}

TYPED_TEST(DenseCpuRuleTest,
           EveryTargetAndSplitGivesTheBitsOfOneAtATimeFramed) {
  using T = typename TypeParam::T;
  using Rule = typename TypeParam::Rule;
  using Model = DenseModel<T, Rule::kSlots>;
  for (const auto& [frame, stored] :
       Pairs(AllFrames(), AllStored<T, typename TypeParam::Description>())) {
    SCOPED_TRACE(testing::Message()
                 << "update " << frame.update << ", overwrite "
                 << frame.overwrite_with_average << ", state "
                 << static_cast<int>(stored.state) << ", master weights "
                 << stored.master_weights);
    std::vector<FramedRule<Rule>> rules;
    for (size_t i = 0; i < Sizes().size(); ++i) {
      rules.emplace_back(typename Rule::Step(TypeParam::Hyperparameters()),
                         frame, VariableInputs{0.01 * i, 1.5, 1.25, double(i)});
    }
    Model original(Sizes(), 0, /*framed=*/true, stored);
    original.AddSpecialNumbers();
    Model expected(original);
    const auto tensors = expected.Tensors();
    for (size_t i = 0; i < tensors.size(); ++i) {
      for (int64_t j = 0; j < tensors[i].size; ++j) {
        RangeFunctionFor<T, Rule>(kBaseline, frame.update)(rules[i], tensors[i],
                                                           j, j + 1);
      }
    }
    ASSERT_FALSE(expected.SameBits(original));
    for (const CpuTarget target : SupportedCpuTargets()) {
      SCOPED_TRACE(CpuTargetName(target));
      Model split(original);
      ApplyDense<T>(split.Tensors(), rules, target, 3, OnThreads(3),
                    frame.update);
      EXPECT_TRUE(split.SameBits(expected));
      EXPECT_TRUE(split.PaddingIsUntouched());
    }
  }
}

TYPED_TEST(DenseCpuTest, FramesARuleAsItsFormulasSay) {
  using T = TypeParam;
  using V = ComputeType<T>;
  using Rule = AdamRule<V, false, false>;
  const double tolerance = std::is_same<T, BFloat16>::value ? 0x1p-7
                           : std::is_same<T, Half>::value   ? 0x1p-10
                                                            : 1e-6;
  for (const FrameInputs& frame : AllFrames()) {
    const VariableInputs own = {0.1, 2.0, 1.25};
    DenseModel<T, 2> model({300}, 0, /*framed=*/true);
    DenseModel<T, 2> original(model);
    ApplyDense<T>(model.Tensors(),
                  std::vector{FramedRule<Rule>(AdamStep(AdamHyperparameters()),
                                               frame, own)},
                  ChosenCpuTarget(), 1, MustNotRun, frame.update);
    for (int i = 0; i < 300; ++i) {
      double p = ToDouble(original.variables[0][i]);
      double m = original.slots[0][i], v = original.slots[1][i];
      double a = original.accumulators[0][i] +
                 0.75 * ToDouble(original.gradients[0][i]);
      if (frame.update) {
        const double g = std::fmin(1.25 * a, 1.25);
        AdamHyperparameters h;
        h.learning_rate *= 2;
        AdamRule<double, false, false>(AdamStep(h), {0.1})(p, g, m, v);
        a = 0;
      }
      const double e = 0.9 * original.averages[0][i] + (1 - 0.9) * p;
      if (frame.overwrite_with_average) p = e;
      ASSERT_NEAR(model.accumulators[0][i], a, 1e-6);
      ASSERT_NEAR(model.slots[0][i], m, 1e-6);
      ASSERT_NEAR(model.slots[1][i], v, 1e-6);
      ASSERT_NEAR(model.averages[0][i], e, tolerance);
      ASSERT_NEAR(ToDouble(model.variables[0][i]), p, tolerance);
    }
  }
}

TYPED_TEST(DenseCpuTest, EqualsTheRuleAppliedToEachElement) {
  using T = TypeParam;
  using V = ComputeType<T>;
  const AdamRule<V, false, false> rule(AdamStep(AdamHyperparameters()), {0.1});
  // A 16-bit variable is off by at most half a unit of its last place.
  const double tolerance = std::is_same<T, BFloat16>::value ? 0x1p-8
                           : std::is_same<T, Half>::value   ? 0x1p-11
                                                            : 1e-6;
  DenseModel<T, 2> model({4097}), original({4097});
  ApplyDense<T>(model.Tensors(), std::vector{FramedRule(rule)},
                ChosenCpuTarget(), 1, MustNotRun);
  for (int i = 0; i < 4097; ++i) {
    V p = ToDouble(original.variables[0][i]);
    V m = original.slots[0][i];
    V v = original.slots[1][i];
    rule(p, V(ToDouble(original.gradients[0][i])), m, v);
    ASSERT_NEAR(model.slots[0][i], m, 1e-6);
    ASSERT_NEAR(model.slots[1][i], v, 1e-6);
    ASSERT_NEAR(ToDouble(model.variables[0][i]), p, tolerance);
  }
}

TYPED_TEST(DenseCpuTest, SmallStepsRunInline) {
  using T = TypeParam;
  const AdamRule<ComputeType<T>, false, false> rule(
      AdamStep(AdamHyperparameters()), {});
  DenseModel<T, 2> model({100});
  ApplyDense<T>(model.Tensors(), std::vector{FramedRule(rule)}, kBaseline, 8,
                MustNotRun);
}

// A rule that leaves or halves its variable shows what loading and storing do.
template <typename T>
std::vector<T> StoreOf(const std::vector<T>& values, CpuTarget target,
                       double learning_rate) {
  AdamHyperparameters h;
  h.learning_rate = learning_rate;
  // With a gradient of 0 only the decay remains: p * (1 - lr * 1).
  const AdamRule<float, false, false> rule(AdamStep(h), {1.0});
  std::vector<T> result = values, gradient(values.size(), FromBits<T>(0));
  std::vector<float> m(values.size()), v(values.size());
  DenseTensor<T, 2> tensor;
  tensor.operands[kVariable] = result.data();
  tensor.operands[kGradient] = gradient.data();
  tensor.operands[kFrameOperandCount] = m.data();
  tensor.operands[kFrameOperandCount + 1] = v.data();
  tensor.size = static_cast<int64_t>(values.size());
  RangeFunctionFor<T, AdamRule<float, false, false>>(target)(
      FramedRule(rule), tensor, 0, values.size());
  return result;
}

template <typename T>
class SixteenBitTest : public testing::Test {};
using SixteenBitTypes = testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(SixteenBitTest, SixteenBitTypes);

TYPED_TEST(SixteenBitTest, EveryNumberSurvivesAndNansBecomeOne) {
  using T = TypeParam;
  std::vector<T> all;
  for (int bits = 0; bits < 1 << 16; ++bits) all.push_back(FromBits<T>(bits));
  for (const CpuTarget target : SupportedCpuTargets()) {
    const std::vector<T> stored = StoreOf(all, target, 0);
    for (int bits = 0; bits < 1 << 16; ++bits) {
      if (std::isnan(ToDouble(all[bits]))) {
        ASSERT_EQ(stored[bits].bits,
                  (std::is_same<T, Half>::value ? 0x7e00 : 0x7fc0))
            << std::hex << bits << " on " << CpuTargetName(target);
      } else {
        ASSERT_EQ(ToDouble(stored[bits]), ToDouble(all[bits]))
            << std::hex << bits << " on " << CpuTargetName(target);
      }
    }
  }
}

TYPED_TEST(SixteenBitTest, StoringRoundsToTheNearestAndTiesToEven) {
  using T = TypeParam;
  std::vector<T> finite;
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const T value = FromBits<T>(bits);
    if (std::isfinite(ToDouble(value))) finite.push_back(value);
  }
  for (const CpuTarget target : SupportedCpuTargets()) {
    // A half makes ties among subnormals, 13/16 and 3/2 everywhere, 3/2 also
    // overflows.
    for (const double factor : {0.5, 0.8125, 1.5}) {
      const std::vector<T> stored = StoreOf(finite, target, 1 - factor);
      for (size_t i = 0; i < finite.size(); ++i) {
        const double exact = ToDouble(finite[i]) * factor;
        const double got = ToDouble(stored[i]);
        if (std::isinf(got)) {
          const double largest = ToDouble(
              FromBits<T>(std::is_same<T, Half>::value ? 0x7bff : 0x7f7f));
          const double last_place =
              largest - ToDouble(FromBits<T>(
                            std::is_same<T, Half>::value ? 0x7bfe : 0x7f7e));
          ASSERT_GE(std::fabs(exact), largest + last_place / 2);
          continue;
        }
        const uint16_t bits = stored[i].bits & 0x7fff;
        const double up = ToDouble(FromBits<T>(bits + 1));
        const double down = bits == 0 ? 0 : ToDouble(FromBits<T>(bits - 1));
        const double error = std::fabs(std::fabs(exact) - std::fabs(got));
        const double to_up = std::fabs(up - std::fabs(exact));
        const double to_down = std::fabs(std::fabs(exact) - down);
        const double other = bits == 0 ? to_up : std::min(to_up, to_down);
        ASSERT_LE(error, other)
            << std::hex << finite[i].bits << " * " << factor;
        if (error == other && error != 0) {
          ASSERT_EQ(bits & 1, 0) << "a tie must go to even";
        }
      }
    }
  }
}

TEST(CpuTarget, TheChosenOneIsSupported) {
  const auto supported = SupportedCpuTargets();
  EXPECT_EQ(supported.front(), kBaseline);
  EXPECT_NE(std::find(supported.begin(), supported.end(), ChosenCpuTarget()),
            supported.end());
}

}  // namespace
}  // namespace tf_opt
