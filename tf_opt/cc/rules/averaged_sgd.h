// AveragedSGD, which is PyTorch's ASGD; docs/formulas.md has the formula and
// its sources.
#ifndef TF_OPT_CC_RULES_AVERAGED_SGD_H_
#define TF_OPT_CC_RULES_AVERAGED_SGD_H_

#include <cstdint>

#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct AveragedSgdHyperparameters {
  double learning_rate = 1e-2;
  double eta = 1e-2;
  double lambd = 1e-4;
  double t0 = 1e6;
  int64_t step = 1;  // t, counted from 1.
};

template <typename V, bool...>
struct AveragedSgdRule
    : RuleBase<struct AveragedSgd, V, AveragedSgdHyperparameters, 1> {
  TF_OPT_HOST_DEVICE AveragedSgdRule(const AveragedSgdHyperparameters& scalars,
                                     const VariableInputs& own)
      : eta(own.learning_rate_factor * scalars.eta),
        mu(1.0 / Max(1.0, scalars.step - 1 - scalars.t0)) {}

  TF_OPT_HOST_DEVICE static double Kept(
      const AveragedSgdHyperparameters& scalars, const VariableInputs& own) {
    return KeptPart(scalars.eta, scalars.lambd * own.learning_rate_factor);
  }

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& ax) const {
    p = p - eta * g;
    // A copy while mu is 1, even of a NaN. Not (1 - mu) * ax + mu * p: the
    // rounding of the first factor would shrink or grow a long average by the
    // same bit in every step.
    ax = Select(mu == V(1), p, ax + mu * (p - ax));
  }

  V eta;
  V mu;
};

struct AveragedSgd
    : DescriptionOf<AveragedSgdHyperparameters, AveragedSgdRule> {
  static constexpr char kOp[] = "AveragedSGD";

  static constexpr Operand kSlotOperands[] = {{"ax"}};

  static constexpr ScalarInput kScalars[] = {
      TF_OPT_SCALAR(Hyperparameters, learning_rate),
      // Negative while the averages are in the variables.
      TF_OPT_SCALAR(Hyperparameters, eta, Range::kNonNegative),
      TF_OPT_SCALAR(Hyperparameters, step, Range::kPositive),
      TF_OPT_SCALAR(Hyperparameters, lambd, Range::kNonNegative),
      TF_OPT_SCALAR(Hyperparameters, t0, Range::kNonNegative)};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_AVERAGED_SGD_H_
