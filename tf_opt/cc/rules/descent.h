// How gradient and weight decay enter a step, in every rule alike:
//
//   g <- -g                               if maximize
//   g <- g + wd * p                       L2 decay, or
//   p <- p - lr * wd * p                  decoupled decay
#ifndef TF_OPT_CC_RULES_DESCENT_H_
#define TF_OPT_CC_RULES_DESCENT_H_

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

template <typename V, bool kL2>
struct Descent {
  // `part` is the factor that another decay of the rule leaves of the variable.
  TF_OPT_HOST_DEVICE Descent(double learning_rate, bool maximize,
                             double weight_decay, double part = 1.0)
      : gradient_sign(maximize ? -1.0 : 1.0),
        l2(weight_decay),
        keep((kL2 ? 1.0 : 1.0 - learning_rate * weight_decay) * part) {}

  // Gradient to descend along, for the variable before the step.
  TF_OPT_RULE_INLINE V Gradient(V g, const V& p) const {
    g = gradient_sign * g;
    if constexpr (kL2) g = g + l2 * p;
    return g;
  }

  V gradient_sign;
  V l2;
  V keep;  // Factor that the decays leave of the variable.
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_DESCENT_H_
