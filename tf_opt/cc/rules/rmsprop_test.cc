#include "tf_opt/cc/rules/rmsprop.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

// Numbers that binary fractions hold exactly.
RmspropHyperparameters Exact() {
  RmspropHyperparameters h;
  h.learning_rate = 0.5;
  h.rho = 0.5;
  h.momentum = 0.5;
  h.epsilon = 7;
  return h;
}

TEST(RmspropTest, DividesByTheRootOfTheAverage) {
  const RmspropRule<float, false, false, false> rule(Exact(), {});
  float p = 1, v = 2;
  rule(p, 4.0f, v);
  EXPECT_EQ(v, 9.0f);
  EXPECT_EQ(p, 1 - 0.5f * 4 / 4);  // sqrt(9 + 7) is 4.
}

TEST(RmspropTest, SubtractsTheSquareOfTheMean) {
  RmspropHyperparameters h = Exact();
  h.epsilon = 3;
  h.torch_epsilon = true;
  const RmspropRule<float, false, true, false> rule(h, {});
  float p = 1, v = 10, a = -2;
  rule(p, 4.0f, v, a);
  EXPECT_EQ(a, 1.0f);
  EXPECT_EQ(p, 1 - 0.5f * 4 / (std::sqrt(12.0f) + 3));
  v = 0, a = 16, p = 1;  // Less than the square of its mean.
  rule(p, 0.0f, v, a);
  EXPECT_EQ(p, 1.0f);
}

TEST(RmspropTest, MomentumTakesUpTheLearningRateOrNot) {
  RmspropHyperparameters h = Exact();
  float p = 1, v = 2, b = 1;
  RmspropRule<float, true, false, false>(h, {})(p, 4.0f, v, b);
  EXPECT_EQ(b, 0.5f + 0.5f);
  EXPECT_EQ(p, 0.0f);
  h.torch_momentum = true;
  p = 1, v = 2, b = 1;
  RmspropRule<float, true, false, false>(h, {})(p, 4.0f, v, b);
  EXPECT_EQ(b, 0.5f + 1);
  EXPECT_EQ(p, 0.25f);
}

}  // namespace
}  // namespace tf_opt
