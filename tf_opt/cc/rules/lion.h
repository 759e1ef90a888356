// Lion; docs/formulas.md has the formula and its source.
#ifndef TF_OPT_CC_RULES_LION_H_
#define TF_OPT_CC_RULES_LION_H_

#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct LionHyperparameters {
  double learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.99;
};

template <typename V, bool...>
struct LionRule : RuleBase<struct Lion, V, LionHyperparameters, 1> {
  TF_OPT_HOST_DEVICE LionRule(const LionHyperparameters& scalars,
                              const VariableInputs& own)
      : step_size(own.learning_rate_factor * scalars.learning_rate),
        moments(scalars) {}

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& m) const {
    p = p - step_size * Sign(moments.beta_1 * m + moments.one_minus_beta_1 * g);
    m = moments.beta_2 * m + moments.one_minus_beta_2 * g;
  }

  TF_OPT_HOST_DEVICE static MissedStep Missed(
      const LionHyperparameters& scalars, const VariableInputs& own) {
    MissedStep missed;
    // Without a gradient beta_1 decides only whether there is a direction.
    missed.step_size = scalars.beta_1 == 0.0
                           ? 0.0
                           : own.learning_rate_factor * scalars.learning_rate;
    missed.decays[0] = scalars.beta_2;
    return missed;
  }

  TF_OPT_RULE_INLINE static V Direction(const V&, const V& m) {
    return Sign(m);
  }

  V step_size;
  Moments<V> moments;
};

struct Lion : DescriptionOf<LionHyperparameters, LionRule> {
  static constexpr bool kCoasts = true;
  static constexpr char kOp[] = "Lion";

  static constexpr Operand kSlotOperands[] = {{"m"}};

  static constexpr ScalarInput kScalars[] = {
      TF_OPT_SCALAR(Hyperparameters, learning_rate),
      TF_OPT_SCALAR(Hyperparameters, beta_1, Range::kFraction),
      TF_OPT_SCALAR(Hyperparameters, beta_2, Range::kFraction)};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_LION_H_
