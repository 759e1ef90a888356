// What rules are made of: rule_parts.h and scalar_math.h.
#include "tf_opt/cc/rules/rule_parts.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tf_opt/cc/rules/averaged_sgd.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/sgd.h"

namespace tf_opt {
namespace {

template <typename V>
class SignTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SignTest, Types);

TYPED_TEST(SignTest, OfNumbers) {
  using V = TypeParam;
  for (const V x : {V(1e-40), V(0.5), V(3), V(INFINITY)}) {
    EXPECT_EQ(Sign(x), 1);
    EXPECT_EQ(Sign(-x), -1);
  }
}

TYPED_TEST(SignTest, OfZerosAndNan) {
  using V = TypeParam;
  EXPECT_EQ(Sign(V(0)), 0);
  EXPECT_FALSE(std::signbit(Sign(V(0))));
  EXPECT_EQ(Sign(-V(0)), 0);
  EXPECT_FALSE(std::signbit(Sign(-V(0))));
  EXPECT_TRUE(std::isnan(Sign(V(NAN))));
}

using Decoupled = Descent<double, false>;

TEST(DescentTest, AnInfiniteLearningRateWithoutDecayKeepsTheVariable) {
  SgdHyperparameters h;
  h.learning_rate = INFINITY;
  VariableInputs own;
  EXPECT_EQ(Decoupled::Keep(h, own), 1);
  own.weight_decay = 0.5;
  EXPECT_EQ(Decoupled::Keep(h, own), -INFINITY);
  EXPECT_EQ((Descent<double, true>::Keep(h, own)), 1);
}

TEST(DescentTest, AnInfiniteStepWithoutDecayGoesWhereTheGradientPoints) {
  AveragedSgdHyperparameters h;
  h.learning_rate = h.eta = INFINITY;
  h.lambd = 0;
  double p = 4, ax = 0;
  AveragedSgdRule<double, false>(AveragedSgdStep(h), {})(p, 8.0, ax);
  EXPECT_EQ(p, -INFINITY);
}

}  // namespace
}  // namespace tf_opt
