// Numbers by hand; powers of two, so that all results are exact.
#include "tf_opt/cc/rules/sgd.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

struct Element {
  double p = 4;
  double b = 2;
};

SgdHyperparameters Momentum(bool torch, bool nesterov) {
  SgdHyperparameters h;
  h.learning_rate = 0.25;
  h.momentum = 0.5;
  h.dampening = 0.75;
  h.step = 2;
  h.torch_momentum = torch;
  h.nesterov = nesterov;
  return h;
}

Element After(const SgdHyperparameters& h, double g) {
  const SgdRule<double, true, false> rule(h, {});
  Element element;
  rule(element.p, g, element.b);
  return element;
}

TEST(SgdRule, WithoutMomentum) {
  const SgdHyperparameters h = Momentum(false, false);
  double p = 4;
  SgdRule<double, false, false>(h, {})(p, 8);
  EXPECT_EQ(p, 2);  // 4 - 0.25 * 8
  VariableInputs own;
  own.weight_decay = 0.5;
  own.learning_rate_factor = 2;
  p = 4;
  SgdRule<double, false, false>(h, own)(p, 8);
  EXPECT_EQ(p, -1);  // 4 - 0.5 * 0.5 * 4 - 0.5 * 8
  p = 4;
  SgdRule<double, false, true>(h, own)(p, 8);
  EXPECT_EQ(p, -1);  // 4 - 0.5 * (8 + 0.5 * 4)
}

TEST(SgdRule, KerasMomentum) {
  const Element plain = After(Momentum(false, false), 8);
  EXPECT_EQ(plain.b, -1);  // 0.5 * 2 - 0.25 * 8
  EXPECT_EQ(plain.p, 3);
  const Element nesterov = After(Momentum(false, true), 8);
  EXPECT_EQ(nesterov.b, -1);
  EXPECT_EQ(nesterov.p, 1.5);  // 4 + 0.5 * -1 - 0.25 * 8
}

TEST(SgdRule, TorchMomentum) {
  const Element plain = After(Momentum(true, false), 8);
  EXPECT_EQ(plain.b, 3);     // 0.5 * 2 + 0.25 * 8
  EXPECT_EQ(plain.p, 3.25);  // 4 - 0.25 * 3
  const Element nesterov = After(Momentum(true, true), 8);
  EXPECT_EQ(nesterov.b, 3);
  EXPECT_EQ(nesterov.p, 1.625);  // 4 - 0.25 * (8 + 0.5 * 3)
}

TEST(SgdRule, TorchMomentumIsNotDampenedInTheFirstStep) {
  SgdHyperparameters h = Momentum(true, false);
  h.step = 1;
  EXPECT_EQ(After(h, 8).b, 9);  // 0.5 * 2 + 8
}

TEST(SgdRule, AnInfiniteGradientIsNoNan) {
  for (const bool torch : {false, true}) {
    for (const bool nesterov : {false, true}) {
      const Element element = After(Momentum(torch, nesterov), INFINITY);
      EXPECT_EQ(element.p, -INFINITY) << torch << nesterov;
      EXPECT_EQ(element.b, torch ? INFINITY : -INFINITY);
    }
  }
}

}  // namespace
}  // namespace tf_opt
