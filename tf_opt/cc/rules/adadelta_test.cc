#include "tf_opt/cc/rules/adadelta.h"

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

TEST(AdadeltaTest, ScalesTheGradientByTheSizeOfPastChanges) {
  AdadeltaHyperparameters h;
  h.learning_rate = 0.5;
  h.rho = 0.5;
  h.epsilon = 1;
  const AdadeltaRule<float, false> rule(h, {});
  float p = 1, a = 14, d = 3;
  rule(p, 4.0f, a, d);
  EXPECT_EQ(a, 15.0f);
  EXPECT_EQ(d, 3.5f);  // x is 4 * sqrt(4 / 16).
  EXPECT_EQ(p, 0.0f);
}

}  // namespace
}  // namespace tf_opt
