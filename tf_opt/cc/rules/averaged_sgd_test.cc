// The rule against the published formula, written out in long double.
#include "tf_opt/cc/rules/averaged_sgd.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"

namespace tf_opt {
namespace {

double Gradient(int step) {
  return (step % 3 == 0 ? -1.0 : 1.0) * 4.0 / (1 + step % 7);
}

template <typename V, bool kL2>
void Compare(bool maximize, double tolerance) {
  SCOPED_TRACE(testing::Message() << "L2 " << kL2 << ", maximize " << maximize);
  AveragedSgdHyperparameters h;
  h.learning_rate = 0.0625;
  h.lambd = 0.25;
  h.t0 = 10;
  h.maximize = maximize;
  const double decay = 0.125;
  const double alpha = 0.75;

  long double expected = 0.75L, average = 0, eta = h.learning_rate, mu = 1;
  V p = 0.75, ax = 0;
  bool averaged = false;
  for (int step = 1; step <= 30; ++step) {
    h.step = step;
    h.eta = eta;
    long double g = Gradient(step);
    if (maximize) g = -g;
    if (kL2) {
      g += decay * expected;
    } else {
      expected -= h.learning_rate * decay * expected;
    }
    expected = expected * (1 - h.lambd * eta) - eta * g;
    if (mu == 1) {
      average = expected;
    } else {
      average += mu * (expected - average);
    }
    eta = h.learning_rate / std::pow(1 + h.lambd * h.learning_rate * step,
                                     static_cast<long double>(alpha));
    mu = 1 / std::max(1.0L, static_cast<long double>(step - h.t0));

    const AveragedSgdStep scalars(h);
    const V gradient = Gradient(step);
    AveragedSgdRule<V, kL2>(scalars, {decay})(p, gradient, ax);
    averaged |= p != ax;
    ASSERT_NEAR(p, expected, tolerance) << "step " << step;
    ASSERT_NEAR(ax, average, tolerance) << "step " << step;
  }
  EXPECT_TRUE(averaged);
  EXPECT_GT(std::fabs(p - ax), 100 * tolerance);
}

TEST(AveragedSgdRule, EqualsTheFormulaInDouble) {
  for (const bool maximize : {false, true}) {
    Compare<double, false>(maximize, 4e-15);
    Compare<double, true>(maximize, 4e-15);
  }
}
TEST(AveragedSgdRule, EqualsTheFormulaInFloat) {
  for (const bool maximize : {false, true}) {
    Compare<float, false>(maximize, 4e-6);
    Compare<float, true>(maximize, 4e-6);
  }
}

TEST(AveragedSgdStep, AveragingBeginsAfterT0AndLagsAStep) {
  AveragedSgdHyperparameters h;
  h.t0 = 10;
  for (const int step : {1, 10, 11, 12}) {
    h.step = step;
    EXPECT_EQ(AveragedSgdStep(h).mu, 1) << "step " << step;
  }
  h.step = 13;
  EXPECT_DOUBLE_EQ(AveragedSgdStep(h).mu, 0.5);
}

}  // namespace
}  // namespace tf_opt
