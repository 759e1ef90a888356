// Against the formulas of PyTorch's documentation in long double.
#include "tf_opt/cc/rules/nadam.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tf_opt/cc/rules/testing/steps.h"

namespace tf_opt {
namespace {

template <bool kL2>
void ExpectTheDocumentedSteps(double momentum_decay, bool maximize) {
  SCOPED_TRACE(testing::Message()
               << "l2 " << kL2 << ", momentum_decay " << momentum_decay
               << ", maximize " << maximize);
  NAdamHyperparameters h;
  h.learning_rate = 0.25;
  // With 0.999, 1 - beta_2 would have fewer digits in double.
  h.beta_1 = 0.75;
  h.beta_2 = 0.875;
  h.epsilon = 1e-3;
  h.momentum_decay = momentum_decay;
  h.maximize = maximize;
  const auto formula = [](long double g, NAdamHyperparameters* h,
                          long double& p, long double& m, long double& v) {
    const long double lr = h->learning_rate * kOwn.learning_rate_factor;
    if (h->maximize) g = -g;
    if (kL2) {
      g += kOwn.weight_decay * p;
    } else {
      p -= lr * kOwn.weight_decay * p;
    }
    const auto mu = [h](int64_t t) {
      return h->beta_1 *
             (1 - 0.5L * std::pow(0.96L, t * 1.0L * h->momentum_decay));
    };
    const long double now = mu(h->step), next = mu(h->step + 1);
    const long double product = h->momentum_product * now;
    m = h->beta_1 * m + (1 - h->beta_1) * g;
    v = h->beta_2 * v + (1 - h->beta_2) * g * g;
    const long double m_hat =
        next * m / (1 - product * next) + (1 - now) * g / (1 - product);
    const long double v_hat = v / (1 - std::pow(1.0L * h->beta_2, h->step));
    p -= lr * m_hat / (std::sqrt(v_hat) + h->epsilon);
    h->momentum_product = product;
  };
  ExpectStepsOf<NAdamRule<double, kL2>>(formula, h);
}

TEST(NAdamTest, TakesTheDocumentedSteps) {
  for (const double momentum_decay : {0.0, 4e-3, 1.0}) {
    for (const bool maximize : {false, true}) {
      ExpectTheDocumentedSteps<false>(momentum_decay, maximize);
      ExpectTheDocumentedSteps<true>(momentum_decay, maximize);
    }
  }
}

}  // namespace
}  // namespace tf_opt
