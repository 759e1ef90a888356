// NAdam; docs/formulas.md has the formula and its source.
#ifndef TF_OPT_CC_RULES_NADAM_H_
#define TF_OPT_CC_RULES_NADAM_H_

#include <cstdint>

#include "tf_opt/cc/rules/power.h"
#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct NAdamHyperparameters {
  double learning_rate = 2e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-8;
  double momentum_decay = 4e-3;
  // P before the step: the product of mu_1 to mu_{t-1}.
  double momentum_product = 1.0;
  int64_t step = 1;  // t, counted from 1.
};

struct NAdamScalars : NAdamHyperparameters {
  TF_OPT_HOST_DEVICE explicit NAdamScalars(const NAdamHyperparameters& h)
      : NAdamHyperparameters(h) {
    const double momentum = Momentum(h.step);
    const double next_momentum = Momentum(h.step + 1.0);
    const double product = h.momentum_product * momentum;
    moment_size =
        h.learning_rate * next_momentum / (1.0 - product * next_momentum);
    gradient_size = h.learning_rate * (1.0 - momentum) / (1.0 - product);
    root_scale = 1.0 / Sqrt(1.0 - Power(h.beta_2, h.step));
  }

  // mu_t.
  TF_OPT_HOST_DEVICE double Momentum(double t) const {
    const double decay = Power(0.96, t * momentum_decay);
    return beta_1 * (1.0 - 0.5 * decay);
  }

  double moment_size;
  double gradient_size;
  double root_scale;
};

template <typename V, bool...>
struct NAdamRule : RuleBase<struct NAdam, V, NAdamScalars, 2> {
  TF_OPT_HOST_DEVICE NAdamRule(const NAdamScalars& scalars,
                               const VariableInputs& own)
      : moments(scalars),
        moment_size(own.learning_rate_factor * scalars.moment_size),
        gradient_size(own.learning_rate_factor * scalars.gradient_size),
        root_scale(scalars.root_scale),
        epsilon(scalars.epsilon) {}

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& m, V& v) const {
    moments.Update(g, m, v);
    p = p - (moment_size * m + gradient_size * g) /
                (Sqrt(v) * root_scale + epsilon);
  }

  TF_OPT_HOST_DEVICE static MissedStep Missed(const NAdamScalars& scalars,
                                              const VariableInputs& own) {
    return Moments<V>::Missed(
        scalars,
        own.learning_rate_factor * scalars.moment_size / scalars.root_scale,
        scalars.epsilon / scalars.root_scale, Sqrt(scalars.beta_2));
  }

  TF_OPT_RULE_INLINE static V Direction(const V& epsilon, const V& m,
                                        const V& v) {
    return Moments<V>::Direction(epsilon, m, v);
  }

  Moments<V> moments;
  V moment_size;
  V gradient_size;
  V root_scale;
  V epsilon;
};

struct NAdam : DescriptionOf<NAdamHyperparameters, NAdamRule> {
  static constexpr bool kCoasts = true;
  static constexpr char kOp[] = "NAdam";

  static constexpr Operand kSlotOperands[] = {{"m"}, {"v"}};

  static constexpr ScalarInput kScalars[] = {
      TF_OPT_SCALAR(Hyperparameters, learning_rate),
      TF_OPT_SCALAR(Hyperparameters, step, Range::kPositive),
      TF_OPT_SCALAR(Hyperparameters, momentum_product),
      TF_OPT_SCALAR(Hyperparameters, beta_1, Range::kDecayRate),
      TF_OPT_SCALAR(Hyperparameters, beta_2, Range::kDecayRate),
      TF_OPT_SCALAR(Hyperparameters, epsilon, Range::kNonNegative),
      TF_OPT_SCALAR(Hyperparameters, momentum_decay, Range::kNonNegative)};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_NADAM_H_
