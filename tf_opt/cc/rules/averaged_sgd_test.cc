// Against the formulas of PyTorch's ASGD in long double.
#include "tf_opt/cc/rules/averaged_sgd.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "tf_opt/cc/rules/testing/steps.h"

namespace tf_opt {
namespace {

template <bool kL2>
void ExpectTorchsSteps(double lambd, bool maximize) {
  SCOPED_TRACE(testing::Message() << "l2 " << kL2 << ", lambd " << lambd
                                  << ", maximize " << maximize);
  AveragedSgdHyperparameters h;
  h.learning_rate = h.eta = 0.25;
  h.lambd = lambd;
  h.t0 = 20;  // The average begins among the steps.
  h.maximize = maximize;
  const auto formula = [](long double g, AveragedSgdHyperparameters* h,
                          long double& p, long double& ax) {
    const long double eta = h->eta * kOwn.learning_rate_factor;
    if (h->maximize) g = -g;
    if (kL2) {
      g += kOwn.weight_decay * p;
    } else {
      p -= h->learning_rate * kOwn.learning_rate_factor * kOwn.weight_decay * p;
    }
    p = p * (1 - h->lambd * eta) - eta * g;
    const long double mu = 1 / std::max(1.0L, h->step - 1 - 1.0L * h->t0);
    ax = mu == 1 ? p : ax + mu * (p - ax);
    h->eta = h->learning_rate /
             std::pow(1 + h->lambd * h->learning_rate * h->step, 0.75L);
  };
  ExpectStepsOf<AveragedSgdRule<double, kL2>>(formula, h);
}

TEST(AveragedSgdTest, TakesTorchsSteps) {
  for (const double lambd : {0.0, 0.125}) {
    for (const bool maximize : {false, true}) {
      ExpectTorchsSteps<false>(lambd, maximize);
      ExpectTorchsSteps<true>(lambd, maximize);
    }
  }
}

TEST(AveragedSgdTest, ANewAverageForgetsNan) {
  const AveragedSgdRule<float, false> rule(
      AveragedSgdStep(AveragedSgdHyperparameters()), {});
  float p = 1, ax = std::nanf("");
  rule(p, 0.0f, ax);
  EXPECT_EQ(ax, p);
}

}  // namespace
}  // namespace tf_opt
