// Adam and, with the frame's decoupled decay (step_frame.h), AdamW; with and
// without AMSGrad. docs/formulas.md has the formula and its sources.
#ifndef TF_OPT_CC_RULES_ADAM_H_
#define TF_OPT_CC_RULES_ADAM_H_

#include <cstdint>

#include "tf_opt/cc/rules/power.h"
#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct AdamHyperparameters {
  double learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-8;
  int64_t step = 1;  // t, counted from 1.
  // Position of epsilon: false is Algorithm 1 of the paper, as above; true is
  // "epsilon hat", added to the uncorrected root (Keras, TensorFlow).
  bool epsilon_hat = false;
};

struct AdamScalars : AdamHyperparameters {
  TF_OPT_HOST_DEVICE explicit AdamScalars(const AdamHyperparameters& h)
      : AdamHyperparameters(h),
        bias_correction_1(1.0 - Power(h.beta_1, h.step)),
        root_bias_correction_2(Sqrt(1.0 - Power(h.beta_2, h.step))) {}

  double bias_correction_1;
  double root_bias_correction_2;
};

// AMSGrad changes what is read per element and so is a template argument; every
// other mode is a scalar (a factor of one), free in a memory-bound loop.
template <typename V, bool kAmsgrad>
struct AdamRule : RuleBase<struct Adam, V, AdamScalars, kAmsgrad ? 3 : 2> {
  TF_OPT_HOST_DEVICE AdamRule(const AdamScalars& scalars,
                              const VariableInputs& own)
      : moments(scalars),
        step_size(own.learning_rate_factor * scalars.learning_rate /
                  scalars.bias_correction_1 *
                  (scalars.epsilon_hat ? scalars.root_bias_correction_2 : 1.0)),
        root_scale(scalars.epsilon_hat ? 1.0
                                       : 1.0 / scalars.root_bias_correction_2),
        epsilon(scalars.epsilon) {}

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& m, V& v) const {
    static_assert(!kAmsgrad, "AMSGrad keeps a third slot");
    moments.Update(g, m, v);
    Descend(p, m, v);
  }

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& m, V& v,
                                     V& v_max) const {
    static_assert(kAmsgrad, "only AMSGrad keeps a third slot");
    moments.Update(g, m, v);
    // The maximum is over the uncorrected moments, as in PyTorch and Keras.
    v_max = Max(v_max, v);
    Descend(p, m, v_max);
  }

  TF_OPT_RULE_INLINE void Descend(V& p, const V& m, const V& v) const {
    p = p - step_size * (m / (Sqrt(v) * root_scale + epsilon));
  }

  TF_OPT_HOST_DEVICE static MissedStep Missed(const AdamScalars& scalars,
                                              const VariableInputs& own) {
    return Moments<V>::Missed(
        scalars,
        own.learning_rate_factor * scalars.learning_rate *
            scalars.root_bias_correction_2 / scalars.bias_correction_1,
        scalars.epsilon *
            (scalars.epsilon_hat ? 1.0 : scalars.root_bias_correction_2),
        kAmsgrad ? 1.0 : Sqrt(scalars.beta_2));
  }

  TF_OPT_RULE_INLINE static V Direction(const V& epsilon, const V& m,
                                        const V& v) {
    return Moments<V>::Direction(epsilon, m, v);
  }
  TF_OPT_RULE_INLINE static V Direction(const V& epsilon, const V& m, const V&,
                                        const V& v_max) {
    return Moments<V>::Direction(epsilon, m, v_max);
  }

  Moments<V> moments;
  V step_size;
  V root_scale;
  V epsilon;
};

struct Adam : DescriptionOf<AdamHyperparameters, AdamRule> {
  static constexpr bool kCoasts = true;
  static constexpr char kOp[] = "AdamAmsgrad";

  static constexpr Operand kSlotOperands[] = {
      {"m"},
      {"v"},
      // Rounded at random, a maximum would grow too large.
      Operand::Optional("v_max").Rounded(Rounding::kToNearest)};

  static constexpr ScalarInput kScalars[] = {
      TF_OPT_SCALAR(Hyperparameters, learning_rate),
      TF_OPT_SCALAR(Hyperparameters, step, Range::kPositive),
      TF_OPT_SCALAR(Hyperparameters, beta_1, Range::kDecayRate),
      TF_OPT_SCALAR(Hyperparameters, beta_2, Range::kDecayRate),
      TF_OPT_SCALAR(Hyperparameters, epsilon, Range::kNonNegative)};

  static constexpr ScalarInput kModes[] = {
      TF_OPT_SCALAR(Hyperparameters, epsilon_hat)};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_ADAM_H_
