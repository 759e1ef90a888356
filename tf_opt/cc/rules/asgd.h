// ASGD, the stochastic average gradient: of every batch the last gradient is
// kept, and a step follows the mean of all of them.
//
//   g <- -g                               if maximize
//   g <- g + wd * p                       L2 decay, or
//   p <- p - lr * wd * p                  decoupled decay
//   d <- d - y + g                        y: this batch's gradient of last time
//   y <- g
//   p <- p - lr / n * d                   n: how many batches have been seen
//
// Schmidt, Le Roux & Bach 2017, "Minimizing Finite Sums with the Stochastic
// Average Gradient"; as in Paddle's ASGD, L2 decay is part of y.
#ifndef TF_OPT_CC_RULES_ASGD_H_
#define TF_OPT_CC_RULES_ASGD_H_

#include <cstdint>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

struct AsgdHyperparameters {
  double learning_rate = 1e-3;
  int64_t seen_batches = 1;  // n, this one included.
  bool maximize = false;
};

// What is the same for every variable of a step. In double, computed once.
struct AsgdStep {
  explicit AsgdStep(const AsgdHyperparameters& h)
      : hyperparameters(h), step_size(h.learning_rate / h.seen_batches) {}

  AsgdHyperparameters hyperparameters;
  double step_size;
};

// One element's update. `V` is the arithmetic type.
template <typename V, bool kL2>
struct AsgdRule {
  static constexpr int kSlots = 2;

  AsgdRule(const AsgdStep& step, double weight_decay)
      : gradient_sign(step.hyperparameters.maximize ? -1.0 : 1.0),
        l2(weight_decay),
        keep(kL2 ? 1.0
                 : 1.0 - step.hyperparameters.learning_rate * weight_decay),
        step_size(step.step_size) {}

  TF_OPT_RULE_INLINE void operator()(V& p, V g, V& d, V& y) const {
    g = gradient_sign * g;
    if constexpr (kL2) g = g + l2 * p;
    // The difference first. Near the optimum a batch's gradient hardly changes:
    // then g - y is exact and d, a small sum of large gradients, is rounded
    // only to its own size. (d - y) + g would be rounded to theirs every step.
    d = d + (g - y);
    y = g;
    p = keep * p - step_size * d;
  }

  V gradient_sign;
  V l2;
  V keep;  // What decoupled decay leaves of the variable: 1 - lr * wd.
  V step_size;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_ASGD_H_
