// The steps around every rule, the same for all optimizers:
//
//   x <- gradient_scale * g
//   x <- x + a;  a <- 0                   if gradients were accumulated
//   x <- gradient_factor * x              a mean, a norm that is clipped
//   x <- min(max(x, -clip_value), clip_value)
//   x <- -x                               if maximize
//   x <- x + wd * p                       if weight decay is L2, or
//   p <- p - lr * wd * p                  if it is decoupled, and not RULE's
//   RULE(p, x, slots)
//   e <- ema_momentum * e + (1 - ema_momentum) * p      if an average is kept
//   p <- e                                if overwrite_with_average
//
// If a variable has a master weight, p is the master weight, and the variable
// is its copy, rounded to 16 bits. (If a master weight doesn't round to its
// variable, the variable was set from outside: its value then becomes the
// master weight.)
//
// A step that only accumulates does:
//
//   a <- a + gradient_scale * g;  e as above
//
// A step that is not enabled does nothing.
#ifndef TF_OPT_CC_RULES_STEP_FRAME_H_
#define TF_OPT_CC_RULES_STEP_FRAME_H_

#include <cstdint>

#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/random_bits.h"
#include "tf_opt/cc/rules/rule_parts.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Scalars of the frame, the same for all variables of a step.
struct FrameInputs {
  double gradient_scale = 1.0;
  double clip_value = __builtin_inf();
  double ema_momentum = 0.0;
  bool overwrite_with_average = false;
  bool maximize = false;
  bool decoupled_weight_decay = true;  // Or L2, which is part of the gradient.
  bool enabled = true;
  bool update = true;
  // Source of random bits besides the variable and the element: the number of
  // steps so far, and a number that is chosen once.
  int64_t iteration = 0;
  int64_t seed = 0;
  // What is rounded at random where it is stored in 16 bits. It costs a little
  // per variable.
  OperandSet rounded_at_random = 0;
};

inline constexpr ScalarInput kFrameScalars[] = {
    TF_OPT_SCALAR(FrameInputs, gradient_scale),
    TF_OPT_SCALAR(FrameInputs, clip_value, Range::kNonNegative),
    TF_OPT_SCALAR(FrameInputs, ema_momentum, Range::kFraction),
    TF_OPT_SCALAR(FrameInputs, overwrite_with_average),
    TF_OPT_SCALAR(FrameInputs, enabled),
    TF_OPT_SCALAR(FrameInputs, update),
    TF_OPT_SCALAR(FrameInputs, iteration)};

// Computes the gradient that the rule receives.
template <typename V>
struct GradientTransform {
  TF_OPT_HOST_DEVICE GradientTransform(const FrameInputs& inputs,
                                       const VariableInputs& own)
      : scale(inputs.gradient_scale),
        factor(own.gradient_factor),
        clip_value(inputs.clip_value),
        sign(inputs.maximize ? -1.0 : 1.0),
        l2_decay(inputs.decoupled_weight_decay ? 0.0 : own.weight_decay) {}

  // True if the gradient stays unchanged.
  TF_OPT_HOST_DEVICE bool IsIdentity() const {
    return scale == 1 && factor == 1 && sign == 1 && l2_decay == 0 &&
           clip_value == static_cast<V>(__builtin_inf());
  }

  TF_OPT_RULE_INLINE V Accumulate(V accumulated, V g) const {
    return accumulated + scale * g;
  }

  // The gradient of a variable's element p, ...
  TF_OPT_RULE_INLINE V operator()(V g, V p) const {
    return Finish(scale * g, p);
  }
  // ... and with the accumulated one.
  TF_OPT_RULE_INLINE V operator()(V g, V accumulated, V p) const {
    return Finish(Accumulate(accumulated, g), p);
  }

  // A NaN stays NaN.
  TF_OPT_RULE_INLINE V Finish(V x, V p) const {
    x = factor * x;
    x = Select(x > clip_value, clip_value, x);
    x = sign * Select(x < -clip_value, -clip_value, x);
    return Select(l2_decay == V(0), x, x + l2_decay * p);
  }

  V scale;
  V factor;
  V clip_value;
  V sign;
  V l2_decay;
};

// Exponential moving average of a variable.
template <typename V>
struct MovingAverage {
  TF_OPT_HOST_DEVICE explicit MovingAverage(const FrameInputs& inputs)
      : momentum(inputs.ema_momentum),
        rest(1.0 - inputs.ema_momentum),
        overwrite(inputs.overwrite_with_average) {}

  TF_OPT_RULE_INLINE V operator()(V average, V p) const {
    return CanonicalNan(momentum * average + rest * p);
  }

  V momentum;
  V rest;
  bool overwrite;
};

// The frame of one variable.
template <typename V>
struct Frame {
  TF_OPT_HOST_DEVICE Frame(const FrameInputs& inputs, const VariableInputs& own,
                           double keep)
      : gradient(inputs, own),
        keep(keep),
        average(inputs),
        update(inputs.update),
        rounded_at_random(inputs.rounded_at_random) {
    if (rounded_at_random == 0) return;
    random_key = RandomKey()
                     .With(inputs.seed)
                     .With(inputs.iteration)
                     .With(own.whole_number());
  }

  // Returns the same with other random bits, for rows that coast.
  TF_OPT_HOST_DEVICE Frame ForCoasting() const {
    Frame other = *this;
    other.random_key = random_key.Stream(kCoastingStreams);
    return other;
  }

  // How an operand is rounded to 16 bits.
  TF_OPT_RULE_INLINE RoundingBits RoundingOf(int operand) const {
    return {Has(rounded_at_random, operand), random_key.Stream(operand)};
  }

  GradientTransform<V> gradient;
  V keep;  // Factor that decay leaves of the variable.
  MovingAverage<V> average;
  bool update;  // Or only accumulates.
  OperandSet rounded_at_random;
  RandomKey random_key;
};

// A variable's scalars, of which the weight decay is only a decoupled one.
TF_OPT_HOST_DEVICE inline VariableInputs WithDecoupledDecay(
    const FrameInputs& inputs, const VariableInputs& own) {
  VariableInputs changed = own;
  if (!inputs.decoupled_weight_decay) changed.weight_decay = 0.0;
  return changed;
}

// Factor that all decays leave of a variable before the rule.
template <typename Rule>
TF_OPT_HOST_DEVICE double KeptBy(const typename Rule::Scalars& scalars,
                                 const FrameInputs& inputs,
                                 const VariableInputs& own) {
  const double decay = WithDecoupledDecay(inputs, own).weight_decay;
  return KeptPart(own.learning_rate_factor * scalars.learning_rate,
                  Rule::kTakesDecay ? 0.0 : decay) *
         Rule::Kept(scalars, own);
}

// What a step does to rows that miss it.
template <typename Rule>
TF_OPT_HOST_DEVICE MissedStep
MissedStepOf(const typename Rule::Scalars& scalars, const FrameInputs& inputs,
             const VariableInputs& own) {
  MissedStep missed = Rule::Missed(scalars, own);
  missed.keep = KeptBy<Rule>(scalars, inputs, own);
  return missed;
}

// A rule and its frame, for one variable.
template <typename Rule>
struct FramedRule : Frame<typename Rule::Value> {
  TF_OPT_HOST_DEVICE FramedRule(const typename Rule::Scalars& scalars,
                                const FrameInputs& inputs,
                                const VariableInputs& own)
      : Frame<typename Rule::Value>(inputs, own,
                                    KeptBy<Rule>(scalars, inputs, own)),
        rule(scalars, WithDecoupledDecay(inputs, own)) {}

  Rule rule;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_STEP_FRAME_H_
