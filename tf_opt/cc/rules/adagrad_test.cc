#include "tf_opt/cc/rules/adagrad.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

// Numbers that binary fractions hold exactly.
AdagradHyperparameters Exact() {
  AdagradHyperparameters h;
  h.learning_rate = 0.5;
  h.epsilon = 7;
  return h;
}

TEST(AdagradTest, DividesByTheRootOfTheSumOfSquares) {
  const AdagradRule<float, false, false> rule(Exact(), {});
  float p = 1, a = 5;
  rule(p, 2.0f, a);  // sqrt(9 + 7) is 4.
  EXPECT_EQ(a, 9.0f);
  EXPECT_EQ(p, 0.75f);
}

TEST(AdagradTest, AddsPyTorchsEpsilonToTheRoot) {
  AdagradHyperparameters h = Exact();
  h.torch_epsilon = true;
  h.epsilon = 1;
  const AdagradRule<float, false, false> rule(h, {});
  float p = 1, a = 5;
  rule(p, 2.0f, a);  // sqrt(9) + 1 is 4.
  EXPECT_EQ(p, 0.75f);
}

TEST(AdagradTest, StandsStillWithoutAGradient) {
  const AdagradRule<float, false, false> rule(Exact(), {});
  float p = 0.1f, a = 0.3f;
  rule(p, 0.0f, a);
  EXPECT_EQ(p, 0.1f);
  EXPECT_EQ(a, 0.3f);
}

TEST(AdagradTest, DecaysTheVariableOrAddsToTheGradient) {
  VariableInputs own;
  own.weight_decay = 0.5;
  float p = 2, a = 5;
  AdagradRule<float, false, false>(Exact(), own)(p, 2.0f, a);
  EXPECT_EQ(p, 2 * (1 - 0.5f * 0.5f) - 0.25f);
  p = 2, a = 5;
  AdagradRule<float, false, true>(Exact(), own)(p, 1.0f, a);  // g is 2.
  EXPECT_EQ(p, 1.75f);
  EXPECT_EQ(a, 9.0f);
}

TEST(AdagradTest, HasOneRateForARow) {
  VariableInputs own;
  own.weight_decay = 0.5;
  const AdagradRule<float, true, false> rule(Exact(), own);
  float p = 2, a = 5;
  rule.ForRow(4, &a)(p, 3.0f);  // The rate is 0.5 / sqrt(9 + 7).
  EXPECT_EQ(a, 9.0f);
  EXPECT_EQ(p, 2 * (1 - 0.5f * 0.5f) - 0.125f * 3);

  AdagradHyperparameters h = Exact();
  h.torch_epsilon = true;
  h.epsilon = 1;
  h.maximize = true;
  const AdagradRule<float, true, true> other(h, own);
  EXPECT_EQ(other.RowGradient(3, 2), -2.0f);
  p = 2, a = 5;
  other.ForRow(4, &a)(p, 3.0f);  // The rate is 0.5 / (sqrt(9) + 1).
  EXPECT_EQ(p, 2.25f);
}

TEST(AdagradTest, ShowsNan) {
  const AdagradRule<float, false, false> rule(Exact(), {});
  float p = 1, a = 0;
  rule(p, std::nanf(""), a);
  EXPECT_TRUE(std::isnan(p));
  EXPECT_TRUE(std::isnan(a));
}

}  // namespace
}  // namespace tf_opt
