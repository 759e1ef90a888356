// The moving averages of the Adam family:
//
//   m <- beta_1 * m + (1 - beta_1) * g
//   v <- beta_2 * v + (1 - beta_2) * g^2
#ifndef TF_OPT_CC_RULES_MOMENTS_H_
#define TF_OPT_CC_RULES_MOMENTS_H_

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

template <typename V>
struct Moments {
  TF_OPT_HOST_DEVICE Moments(double beta_1, double beta_2)
      : beta_1(beta_1),
        one_minus_beta_1(1.0 - beta_1),
        beta_2(beta_2),
        one_minus_beta_2(1.0 - beta_2) {}

  TF_OPT_RULE_INLINE void Update(const V& g, V& m, V& v) const {
    m = beta_1 * m + one_minus_beta_1 * g;
    v = beta_2 * v + one_minus_beta_2 * (g * g);
  }

  V beta_1;
  V one_minus_beta_1;
  V beta_2;
  V one_minus_beta_2;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_MOMENTS_H_
