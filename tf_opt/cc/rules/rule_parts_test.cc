#include "tf_opt/cc/rules/rule_parts.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tf_opt/cc/rules/averaged_sgd.h"
#include "tf_opt/cc/rules/sgd.h"

namespace tf_opt {
namespace {

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
