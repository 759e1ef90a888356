#include "tf_opt/cc/rules/adamax.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

// Numbers that binary fractions hold exactly.
AdamaxStep Exact(bool torch_epsilon) {
  AdamaxHyperparameters h;
  h.learning_rate = 0.5;
  h.beta_1 = 0.5;
  h.beta_2 = 0.75;
  h.epsilon = 1;
  h.torch_epsilon = torch_epsilon;
  return AdamaxStep(h);
}

TEST(AdamaxTest, DividesByTheNormAndEpsilon) {
  const AdamaxRule<float, false> rule(Exact(false), {});
  float p = 1, m = 2, u = 4;
  rule(p, -2.0f, m, u);
  EXPECT_EQ(m, 0.0f);
  EXPECT_EQ(u, 3.0f);  // Not |g|, which is less.
  EXPECT_EQ(p, 1.0f);
  rule(p, -7.0f, m, u);
  EXPECT_EQ(u, 7.0f);
  EXPECT_EQ(p, 1 + 3.5f / 8);
}

TEST(AdamaxTest, PyTorchsEpsilonIsInsideOfTheMaximum) {
  const AdamaxRule<float, false> rule(Exact(true), {});
  float p = 1, m = 0, u = 8;
  rule(p, 7.0f, m, u);
  EXPECT_EQ(u, 8.0f);
  EXPECT_EQ(p, 1 - 3.5f / 8);
}

TEST(AdamaxTest, ShowsNan) {
  const AdamaxRule<float, false> rule(Exact(false), {});
  float p = 1, m = 0, u = 4;
  rule(p, std::nanf(""), m, u);
  EXPECT_TRUE(std::isnan(p));
  EXPECT_TRUE(std::isnan(u));
}

}  // namespace
}  // namespace tf_opt
