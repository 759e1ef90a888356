#include "tf_opt/cc/rules/ftrl.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

// Numbers that binary fractions hold exactly.
FtrlHyperparameters Exact() {
  FtrlHyperparameters h;
  h.learning_rate = 0.5;
  h.l1 = 1;
  h.l2 = 0.5;
  h.l2_shrinkage = 0.25;
  h.beta = 1;
  return h;
}

TEST(FtrlTest, FollowsTheRegularizedLeader) {
  const FtrlRule<float, false> rule(Exact(), {});
  float p = 2, n = 16, z = 12;
  rule(p, 3.0f, n, z);
  EXPECT_EQ(n, 25.0f);
  EXPECT_EQ(z, 12 + 3 + 0.5f * 2 - (5 - 4) / 0.5f * 2);
  EXPECT_EQ(p, (1 - z) / ((5 + 1) / 0.5f + 2 * 0.5f));
}

TEST(FtrlTest, L1SetsToZeroAlsoWhereTheDivisorIs) {
  FtrlHyperparameters h = Exact();
  h.l2 = h.beta = 0;
  const FtrlRule<float, false> rule(h, {});
  float p = 0, n = 0, z = 0.5f;
  rule(p, 0.0f, n, z);
  EXPECT_EQ(p, 0.0f);
  z = -1;
  rule(p, 0.0f, n, z);
  EXPECT_EQ(p, 0.0f);
}

TEST(FtrlTest, NothingChangesWithoutALearningRate) {
  VariableInputs own;
  own.learning_rate_factor = 0;
  const FtrlRule<float, false> rule(Exact(), own);
  float p = 2, n = 16, z = 12;
  rule(p, 3.0f, n, z);
  EXPECT_EQ(p, 2.0f);
  EXPECT_EQ(n, 16.0f);
  EXPECT_EQ(z, 12.0f);
}

TEST(FtrlTest, ShowsNan) {
  const FtrlRule<float, false> rule(Exact(), {});
  float p = 0, n = 1, z = 0;
  rule(p, std::nanf(""), n, z);
  EXPECT_TRUE(std::isnan(p));
}

}  // namespace
}  // namespace tf_opt
