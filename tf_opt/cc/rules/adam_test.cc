// The rule against the formulas of the papers, written out in long double.
#include "tf_opt/cc/rules/adam.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

struct Reference {
  long double p = 0.75L, m = 0, v = 0, v_max = 0;

  void Step(const AdamHyperparameters& h, long double g, long double decay,
            bool l2, bool amsgrad) {
    const long double t = h.step;
    if (h.maximize) g = -g;
    if (l2) {
      g += decay * p;
    } else {
      p -= h.learning_rate * decay * p;
    }
    m = h.beta_1 * m + (1 - static_cast<long double>(h.beta_1)) * g;
    v = h.beta_2 * v + (1 - static_cast<long double>(h.beta_2)) * g * g;
    v_max = std::fmax(v_max, v);
    const long double second = amsgrad ? v_max : v;
    const long double c1 = 1 - std::pow(static_cast<long double>(h.beta_1), t);
    const long double c2 = 1 - std::pow(static_cast<long double>(h.beta_2), t);
    if (h.epsilon_hat) {
      p -= h.learning_rate * std::sqrt(c2) / c1 * m /
           (std::sqrt(second) + h.epsilon);
    } else {
      p -= h.learning_rate * (m / c1) / (std::sqrt(second / c2) + h.epsilon);
    }
  }
};

// Gradients that shrink and change sign, so that v falls below its maximum.
long double Gradient(int step) {
  return (step % 3 == 0 ? -1.0L : 1.0L) * 4.0L / (1 + step * step);
}

template <typename V, bool kAmsgrad, bool kL2>
void Compare(bool maximize, bool epsilon_hat, double tolerance) {
  SCOPED_TRACE(testing::Message()
               << "amsgrad " << kAmsgrad << ", L2 " << kL2 << ", maximize "
               << maximize << ", epsilon hat " << epsilon_hat);
  AdamHyperparameters h;
  h.learning_rate = 0.0625;
  h.beta_1 = 0.75;
  h.beta_2 = 0.875;
  h.epsilon = 1e-3;
  h.maximize = maximize;
  h.epsilon_hat = epsilon_hat;
  const double decay = 0.125;

  Reference expected;
  V p = 0.75, m = 0, v = 0, v_max = 0;
  bool maximum_mattered = false;
  for (int step = 1; step <= 30; ++step) {
    h.step = step;
    const V g = static_cast<V>(Gradient(step));
    expected.Step(h, g, decay, kL2, kAmsgrad);
    const AdamRule<V, kAmsgrad, kL2> rule(AdamStep(h), {decay});
    if constexpr (kAmsgrad) {
      rule(p, g, m, v, v_max);
      ASSERT_NEAR(v_max, expected.v_max, tolerance) << "step " << step;
      maximum_mattered |= v_max > 2 * v;
    } else {
      rule(p, g, m, v);
    }
    ASSERT_NEAR(p, expected.p, tolerance) << "step " << step;
    ASSERT_NEAR(m, expected.m, tolerance) << "step " << step;
    ASSERT_NEAR(v, expected.v, tolerance) << "step " << step;
  }
  EXPECT_EQ(maximum_mattered, kAmsgrad);
}

template <typename V>
void CompareAllModes(double tolerance) {
  for (const bool maximize : {false, true}) {
    for (const bool epsilon_hat : {false, true}) {
      Compare<V, false, false>(maximize, epsilon_hat, tolerance);
      Compare<V, false, true>(maximize, epsilon_hat, tolerance);
      Compare<V, true, false>(maximize, epsilon_hat, tolerance);
      Compare<V, true, true>(maximize, epsilon_hat, tolerance);
    }
  }
}

// Values stay below 4: a few units in the last place of each type.
TEST(AdamRule, EqualsThePapersInDouble) { CompareAllModes<double>(4e-15); }
TEST(AdamRule, EqualsThePapersInFloat) { CompareAllModes<float>(2e-6); }

// The first step of Adam is the learning rate, whatever the gradient's size.
TEST(AdamRule, FirstStepHasTheSizeOfTheLearningRate) {
  AdamHyperparameters h;
  h.epsilon = 0;
  for (const float g : {1e-12f, 1.0f, 1e12f}) {
    float p = 0, m = 0, v = 0;
    AdamRule<float, false, false>(AdamStep(h), {})(p, g, m, v);
    EXPECT_NEAR(p, -1e-3, 1e-9) << "gradient " << g;
  }
}

TEST(AdamRule, ANanGradientIsNotHiddenByTheMaximum) {
  float p = 1, m = 0, v = 0, v_max = 1e6f;
  AdamRule<float, true, false>(AdamStep(AdamHyperparameters()), {})(p, NAN, m,
                                                                    v, v_max);
  EXPECT_TRUE(std::isnan(v_max));
  EXPECT_TRUE(std::isnan(p));
}

}  // namespace
}  // namespace tf_opt
