#include "tf_opt/cc/rules/lion.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

// Numbers that binary fractions hold exactly.
LionHyperparameters Exact() {
  LionHyperparameters h;
  h.learning_rate = 0.25;
  h.beta_1 = 0.5;
  h.beta_2 = 0.75;
  return h;
}

TEST(LionTest, StepsByTheSignOfAnAverageThatItDoesNotKeep) {
  const LionRule<float, false> rule(Exact(), {});
  float p = 1, m = -3;
  rule(p, 1.0f, m);  // The sign of 0.5 * -3 + 0.5 * 1.
  EXPECT_EQ(p, 1.25f);
  EXPECT_EQ(m, -2.0f);  // 0.75 * -3 + 0.25 * 1.
  rule(p, 8.0f, m);
  EXPECT_EQ(p, 1.0f);
  EXPECT_EQ(m, 0.5f);
}

TEST(LionTest, StandsStillWhereTheAverageIsZero) {
  const LionRule<float, false> rule(Exact(), {});
  float p = 1, m = -2;
  rule(p, 2.0f, m);
  EXPECT_EQ(p, 1.0f);
  EXPECT_EQ(m, -1.0f);
}

TEST(LionTest, DecaysTheVariableOrAddsToTheGradient) {
  VariableInputs own;
  own.weight_decay = 0.5;
  float p = 2, m = 0;
  LionRule<float, false>(Exact(), own)(p, -1.0f, m);
  EXPECT_EQ(p, 2 * (1 - 0.25f * 0.5f) + 0.25f);
  EXPECT_EQ(m, -0.25f);
  p = 2, m = 0;
  LionRule<float, true>(Exact(), own)(p, -0.5f, m);  // g is 0.5.
  EXPECT_EQ(p, 1.75f);
  EXPECT_EQ(m, 0.125f);
}

TEST(LionTest, ShowsNan) {
  const LionRule<float, false> rule(Exact(), {});
  float p = 1, m = 0;
  rule(p, std::nanf(""), m);
  EXPECT_TRUE(std::isnan(p));
  EXPECT_TRUE(std::isnan(m));
}

}  // namespace
}  // namespace tf_opt
