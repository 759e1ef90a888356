// ScheduleFreeAdamW; docs/formulas.md has the formula and its source.
#ifndef TF_OPT_CC_RULES_SCHEDULE_FREE_ADAMW_H_
#define TF_OPT_CC_RULES_SCHEDULE_FREE_ADAMW_H_

#include <cstdint>

#include "tf_opt/cc/rules/power.h"
#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct ScheduleFreeAdamwHyperparameters {
  double learning_rate = 2.5e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-8;
  double warmup_steps = 0.0;
  double weight_lr_power = 2.0;
  double r = 0.0;
  // Before the step: the largest learning rate, and the sum of the weights of
  // all steps, relative to that of a step at this learning rate. Both are 0
  // before the first step.
  double learning_rate_max = 0.0;
  double weight_sum = 0.0;
  int64_t step = 1;                // t, counted from 1.
  bool decay_in_direction = true;  // Or it shrinks the variable first.
};

struct ScheduleFreeAdamwScalars : ScheduleFreeAdamwHyperparameters {
  TF_OPT_HOST_DEVICE explicit ScheduleFreeAdamwScalars(
      const ScheduleFreeAdamwHyperparameters& h)
      : ScheduleFreeAdamwHyperparameters(h),
        rate(h.learning_rate * Min(h.step / Max(h.warmup_steps, 1.0), 1.0)),
        root_scale(1.0 / Sqrt(1.0 - Power(h.beta_2, h.step))) {
    const double rate_max = Max(h.learning_rate_max, rate);
    const double ratio = rate_max > 0.0 ? h.learning_rate_max / rate_max : 1.0;
    const double weight = Power(h.step, h.r);
    // Keras stores no sum: all of its steps weigh the same.
    const double sum = h.weight_sum == 0.0
                           ? (h.step - 1) * weight
                           : h.weight_sum * Power(ratio, h.weight_lr_power);
    share = weight / (sum + weight);
    step_size = rate * (1.0 - h.beta_1 * (1.0 - share));
  }

  double rate;
  double root_scale;
  double share;  // The weight of z in the average of this step.
  double step_size;
};

template <typename V, bool...>
struct ScheduleFreeAdamwRule
    : RuleBase<struct ScheduleFreeAdamw, V, ScheduleFreeAdamwScalars, 2> {
  static constexpr bool kTakesDecay = true;

  TF_OPT_HOST_DEVICE ScheduleFreeAdamwRule(
      const ScheduleFreeAdamwScalars& scalars, const VariableInputs& own)
      : moments(scalars),
        rate(own.learning_rate_factor * scalars.rate),
        step_size(own.learning_rate_factor * scalars.step_size),
        share(scalars.share),
        root_scale(scalars.root_scale),
        epsilon(scalars.epsilon),
        begins(scalars.step == 1 ? V(1) : V(0)),
        decay(scalars.decay_in_direction ? own.weight_decay : 0.0),
        keep(scalars.decay_in_direction
                 ? 1.0
                 : KeptPart(own.learning_rate_factor * scalars.learning_rate,
                            own.weight_decay)) {}

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& z, V& v) const {
    // The variable may have been set after z was created.
    z = Select(begins == V(1), p, z);
    p = keep * p;
    v = moments.beta_2 * v + moments.one_minus_beta_2 * (g * g);
    V d = g / (Sqrt(v) * root_scale + epsilon);
    d = Select(decay == V(0), d, d + decay * p);
    p = p + share * (z - p) - step_size * d;
    z = z - rate * d;
  }

  Moments<V> moments;
  V rate;
  V step_size;
  V share;
  V root_scale;
  V epsilon;
  V begins;
  V decay;
  V keep;
};

struct ScheduleFreeAdamw
    : DescriptionOf<ScheduleFreeAdamwHyperparameters, ScheduleFreeAdamwRule> {
  static constexpr char kOp[] = "ScheduleFreeAdamW";

  static constexpr Operand kSlotOperands[] = {
      Operand("z").Stored(Storage::kArithmetic), {"v"}};

  static constexpr ScalarInput kScalars[] = {
      TF_OPT_SCALAR(Hyperparameters, learning_rate),
      TF_OPT_SCALAR(Hyperparameters, step, Range::kPositive),
      TF_OPT_SCALAR(Hyperparameters, learning_rate_max),
      TF_OPT_SCALAR(Hyperparameters, weight_sum),
      TF_OPT_SCALAR(Hyperparameters, beta_1, Range::kDecayRate),
      TF_OPT_SCALAR(Hyperparameters, beta_2, Range::kDecayRate),
      TF_OPT_SCALAR(Hyperparameters, epsilon, Range::kNonNegative),
      TF_OPT_SCALAR(Hyperparameters, warmup_steps, Range::kNonNegative),
      TF_OPT_SCALAR(Hyperparameters, weight_lr_power),
      TF_OPT_SCALAR(Hyperparameters, r, Range::kNonNegative)};

  static constexpr ScalarInput kModes[] = {
      TF_OPT_SCALAR(Hyperparameters, decay_in_direction)};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_SCHEDULE_FREE_ADAMW_H_
