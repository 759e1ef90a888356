// Against the paper's formulas in long double.
#include "tf_opt/cc/rules/adam.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "tf_opt/cc/rules/testing/steps.h"

namespace tf_opt {
namespace {

template <bool kAmsgrad, bool kL2>
void ExpectThePapersSteps(bool epsilon_hat, bool maximize) {
  SCOPED_TRACE(testing::Message()
               << "amsgrad " << kAmsgrad << ", l2 " << kL2 << ", epsilon_hat "
               << epsilon_hat << ", maximize " << maximize);
  AdamHyperparameters h;
  h.learning_rate = 0.25;
  // With 0.999, 1 - beta_2 would have fewer digits in double.
  h.beta_1 = 0.75;
  h.beta_2 = 0.875;
  h.epsilon = 1e-3;
  h.epsilon_hat = epsilon_hat;
  h.maximize = maximize;
  const auto formula = [](long double g, const AdamHyperparameters* h,
                          long double& p, long double& m, long double& v,
                          auto&... v_max) {
    const long double lr = h->learning_rate * kOwn.learning_rate_factor;
    if (h->maximize) g = -g;
    if (kL2) {
      g += kOwn.weight_decay * p;
    } else {
      p -= lr * kOwn.weight_decay * p;
    }
    m = h->beta_1 * m + (1 - h->beta_1) * g;
    v = h->beta_2 * v + (1 - h->beta_2) * g * g;
    long double second_moment = v;
    ((second_moment = v_max = std::max(v_max, v)), ...);
    const long double correction_1 = 1 - std::pow(1.0L * h->beta_1, h->step);
    const long double correction_2 = 1 - std::pow(1.0L * h->beta_2, h->step);
    if (h->epsilon_hat) {
      p -= lr * std::sqrt(correction_2) / correction_1 * m /
           (std::sqrt(second_moment) + h->epsilon);
    } else {
      p -= lr * (m / correction_1) /
           (std::sqrt(second_moment / correction_2) + h->epsilon);
    }
  };
  ExpectStepsOf<AdamRule<double, kAmsgrad, kL2>>(formula, h);
}

TEST(AdamTest, TakesThePapersSteps) {
  for (const bool epsilon_hat : {false, true}) {
    for (const bool maximize : {false, true}) {
      ExpectThePapersSteps<false, false>(epsilon_hat, maximize);
      ExpectThePapersSteps<false, true>(epsilon_hat, maximize);
      ExpectThePapersSteps<true, false>(epsilon_hat, maximize);
      ExpectThePapersSteps<true, true>(epsilon_hat, maximize);
    }
  }
}

TEST(AdamTest, AMaximumShowsNan) {
  const AdamRule<float, true, false> rule(AdamStep({}), {});
  float p = 1, m = 0, v = 0, v_max = 4;
  rule(p, std::nanf(""), m, v, v_max);
  EXPECT_TRUE(std::isnan(v_max));
}

}  // namespace
}  // namespace tf_opt
