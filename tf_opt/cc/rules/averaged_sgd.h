// AveragedSGD: stochastic gradient descent that keeps the variable's average.
//
//   g <- -g                               if maximize
//   g <- g + wd * p                       L2 decay, or
//   p <- p - lr * wd * p                  decoupled decay
//   p <- p * (1 - lambd * eta) - eta * g
//   ax <- p                               while mu is 1, else
//   ax <- ax + mu * (p - ax)
//
// with eta, the step size, from the step before (the learning rate in the
// first), and mu = 1 / max(1, t - 1 - t0).
//
// Polyak & Juditsky 1992, "Acceleration of Stochastic Approximation by
// Averaging"; as in PyTorch's ASGD.
#ifndef TF_OPT_CC_RULES_AVERAGED_SGD_H_
#define TF_OPT_CC_RULES_AVERAGED_SGD_H_

#include <algorithm>
#include <cstdint>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

struct AveragedSgdHyperparameters {
  double learning_rate = 1e-2;
  double eta = 1e-2;
  double lambd = 1e-4;
  double t0 = 1e6;
  int64_t step = 1;  // t, counted from 1.
  bool maximize = false;
};

// What is the same for every variable of a step. In double, computed once.
struct AveragedSgdStep {
  explicit AveragedSgdStep(const AveragedSgdHyperparameters& h)
      : hyperparameters(h), mu(1.0 / std::max(1.0, h.step - 1 - h.t0)) {}

  // Whether the average is more than a copy of the variable.
  bool averages() const { return mu != 1.0; }

  AveragedSgdHyperparameters hyperparameters;
  double mu;
};

// One element's update. `V` is the arithmetic type.
template <typename V, bool kL2, bool kAverages>
struct AveragedSgdRule {
  static constexpr int kSlots = 1;

  AveragedSgdRule(const AveragedSgdStep& step, double weight_decay)
      : gradient_sign(step.hyperparameters.maximize ? -1.0 : 1.0),
        l2(weight_decay),
        keep((kL2 ? 1.0
                  : 1.0 - step.hyperparameters.learning_rate * weight_decay) *
             (1.0 - step.hyperparameters.lambd * step.hyperparameters.eta)),
        eta(step.hyperparameters.eta),
        mu(step.mu) {}

  TF_OPT_RULE_INLINE void operator()(V& p, V g, V& ax) const {
    g = gradient_sign * g;
    if constexpr (kL2) g = g + l2 * p;
    p = keep * p - eta * g;
    // Not (1 - mu) * ax + mu * p: the first factor's rounding would shrink or
    // grow a long average by the same bit in every step.
    if constexpr (kAverages) {
      ax = ax + mu * (p - ax);
    } else {
      ax = p;
    }
  }

  V gradient_sign;
  V l2;
  V keep;  // What the decays leave of the variable.
  V eta;
  V mu;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_AVERAGED_SGD_H_
