// Adamax; docs/formulas.md has the formula and its source.
#ifndef TF_OPT_CC_RULES_ADAMAX_H_
#define TF_OPT_CC_RULES_ADAMAX_H_

#include <cstdint>

#include "tf_opt/cc/rules/power.h"
#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct AdamaxHyperparameters {
  double learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  int64_t step = 1;            // t, counted from 1.
  bool torch_epsilon = false;  // Inside of the maximum, as in PyTorch.
};

struct AdamaxScalars : AdamaxHyperparameters {
  TF_OPT_HOST_DEVICE explicit AdamaxScalars(const AdamaxHyperparameters& h)
      : AdamaxHyperparameters(h),
        step_size(h.learning_rate / (1.0 - Power(h.beta_1, h.step))) {}

  double step_size;
};

template <typename V, bool...>
struct AdamaxRule : RuleBase<struct Adamax, V, AdamaxScalars, 2> {
  TF_OPT_HOST_DEVICE AdamaxRule(const AdamaxScalars& scalars,
                                const VariableInputs& own)
      : moments(scalars),
        step_size(own.learning_rate_factor * scalars.step_size),
        epsilon_inside(scalars.torch_epsilon ? scalars.epsilon : 0.0),
        epsilon_outside(scalars.torch_epsilon ? 0.0 : scalars.epsilon) {}

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& m, V& u) const {
    m = moments.beta_1 * m + moments.one_minus_beta_1 * g;
    u = Max(moments.beta_2 * u, Abs(g) + epsilon_inside);
    p = p - step_size * (m / (u + epsilon_outside));
  }

  TF_OPT_HOST_DEVICE static MissedStep Missed(const AdamaxScalars& scalars,
                                              const VariableInputs& own) {
    return Moments<V>::Missed(
        scalars, own.learning_rate_factor * scalars.step_size,
        scalars.torch_epsilon ? 0.0 : scalars.epsilon, scalars.beta_2);
  }

  TF_OPT_RULE_INLINE static V Direction(const V& epsilon, const V& m,
                                        const V& u) {
    // PyTorch's norm is 0 before the first gradient.
    return Select(m == V(0), V(0), m / (u + epsilon));
  }

  Moments<V> moments;
  V step_size;
  V epsilon_inside;
  V epsilon_outside;
};

struct Adamax : DescriptionOf<AdamaxHyperparameters, AdamaxRule> {
  static constexpr bool kCoasts = true;
  static constexpr char kOp[] = "Adamax";

  static constexpr Operand kSlotOperands[] = {{"m"}, {"u"}};

  static constexpr ScalarInput kScalars[] = {
      TF_OPT_SCALAR(Hyperparameters, learning_rate),
      TF_OPT_SCALAR(Hyperparameters, step, Range::kPositive),
      TF_OPT_SCALAR(Hyperparameters, beta_1, Range::kDecayRate),
      TF_OPT_SCALAR(Hyperparameters, beta_2, Range::kDecayRate),
      TF_OPT_SCALAR(Hyperparameters, epsilon, Range::kNonNegative)};

  static constexpr ScalarInput kModes[] = {
      TF_OPT_SCALAR(Hyperparameters, torch_epsilon)};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_ADAMAX_H_
