// The rule against the published formula, written out in long double.
#include "tf_opt/cc/rules/nadam.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

struct Reference {
  long double p = 0.75L, m = 0, v = 0, product = 1;

  void Step(const NAdamHyperparameters& h, long double g, long double decay,
            bool l2) {
    const auto momentum = [&h](long double t) {
      return h.beta_1 * (1 - 0.5L * std::pow(0.96L, t * h.momentum_decay));
    };
    const long double t = h.step;
    if (h.maximize) g = -g;
    if (l2) {
      g += decay * p;
    } else {
      p -= h.learning_rate * decay * p;
    }
    product *= momentum(t);
    m = h.beta_1 * m + (1 - static_cast<long double>(h.beta_1)) * g;
    v = h.beta_2 * v + (1 - static_cast<long double>(h.beta_2)) * g * g;
    const long double m_hat =
        momentum(t + 1) * m / (1 - product * momentum(t + 1)) +
        (1 - momentum(t)) * g / (1 - product);
    const long double v_hat =
        v / (1 - std::pow(static_cast<long double>(h.beta_2), t));
    p -= h.learning_rate * m_hat / (std::sqrt(v_hat) + h.epsilon);
  }
};

template <typename V, bool kL2>
void Compare(bool maximize, double momentum_decay, double tolerance) {
  SCOPED_TRACE(testing::Message() << "L2 " << kL2 << ", maximize " << maximize
                                  << ", momentum decay " << momentum_decay);
  NAdamHyperparameters h;
  h.learning_rate = 0.0625;
  h.beta_1 = 0.75;
  h.beta_2 = 0.875;
  h.epsilon = 1e-3;
  h.momentum_decay = momentum_decay;
  h.maximize = maximize;
  const double decay = 0.125;

  Reference expected;
  V p = 0.75, m = 0, v = 0;
  for (int step = 1; step <= 30; ++step) {
    h.step = step;
    h.momentum_product = expected.product;
    const V g = (step % 3 == 0 ? -1.0 : 1.0) * 4.0 / (1 + step * step);
    expected.Step(h, g, decay, kL2);
    NAdamRule<V, kL2>(NAdamStep(h), {decay})(p, g, m, v);
    ASSERT_NEAR(p, expected.p, tolerance) << "step " << step;
    ASSERT_NEAR(m, expected.m, tolerance) << "step " << step;
    ASSERT_NEAR(v, expected.v, tolerance) << "step " << step;
  }
}

template <typename V>
void CompareAllModes(double tolerance) {
  for (const bool maximize : {false, true}) {
    for (const double momentum_decay : {0.0, 0.004, 1.0}) {
      Compare<V, false>(maximize, momentum_decay, tolerance);
      Compare<V, true>(maximize, momentum_decay, tolerance);
    }
  }
}

// Values stay below 4: a few units in the last place of each type.
TEST(NAdamRule, EqualsTheFormulaInDouble) { CompareAllModes<double>(4e-15); }
TEST(NAdamRule, EqualsTheFormulaInFloat) { CompareAllModes<float>(2e-6); }

TEST(NAdamRule, TheMomentumGoesFromHalfOfBeta1ToBeta1) {
  NAdamHyperparameters h;
  h.momentum_decay = 1;
  const NAdamStep step(h);
  EXPECT_DOUBLE_EQ(step.Momentum(0), 0.45);
  EXPECT_NEAR(step.Momentum(1000), 0.9, 1e-15);
}

}  // namespace
}  // namespace tf_opt
