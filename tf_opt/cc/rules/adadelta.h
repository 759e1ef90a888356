// Adadelta; docs/formulas.md has the formula and its source.
#ifndef TF_OPT_CC_RULES_ADADELTA_H_
#define TF_OPT_CC_RULES_ADADELTA_H_

#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct AdadeltaHyperparameters {
  double learning_rate = 1e-3;
  double rho = 0.95;
  double epsilon = 1e-7;
};

template <typename V, bool...>
struct AdadeltaRule : RuleBase<struct Adadelta, V, AdadeltaHyperparameters, 2> {
  TF_OPT_HOST_DEVICE AdadeltaRule(const AdadeltaHyperparameters& scalars,
                                  const VariableInputs& own)
      : learning_rate(own.learning_rate_factor * scalars.learning_rate),
        rho(scalars.rho),
        one_minus_rho(1.0 - scalars.rho),
        epsilon(scalars.epsilon) {}

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& a, V& d) const {
    a = rho * a + one_minus_rho * (g * g);
    const V x = Sqrt((d + epsilon) / (a + epsilon)) * g;
    d = rho * d + one_minus_rho * (x * x);
    p = p - learning_rate * x;
  }

  // Without a gradient only decay moves a row.
  TF_OPT_HOST_DEVICE static MissedStep Missed(
      const AdadeltaHyperparameters& scalars, const VariableInputs& own) {
    MissedStep missed;
    missed.decays[0] = missed.decays[1] = scalars.rho;
    return missed;
  }

  V learning_rate;
  V rho;
  V one_minus_rho;
  V epsilon;
};

struct Adadelta : DescriptionOf<AdadeltaHyperparameters, AdadeltaRule> {
  static constexpr bool kCoasts = true;
  static constexpr char kOp[] = "Adadelta";

  static constexpr Operand kSlotOperands[] = {{"accumulated_grad"},
                                              {"accumulated_delta_var"}};

  static constexpr ScalarInput kScalars[] = {
      TF_OPT_SCALAR(Hyperparameters, learning_rate),
      TF_OPT_SCALAR(Hyperparameters, rho, Range::kDecayRate),
      TF_OPT_SCALAR(Hyperparameters, epsilon, Range::kNonNegative)};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_ADADELTA_H_
