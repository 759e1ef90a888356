// RMSprop; docs/formulas.md has the formula and its sources.
#ifndef TF_OPT_CC_RULES_RMSPROP_H_
#define TF_OPT_CC_RULES_RMSPROP_H_

#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct RmspropHyperparameters {
  double learning_rate = 1e-3;
  double rho = 0.9;
  double momentum = 0.0;
  double epsilon = 1e-7;
  bool torch_epsilon = false;   // Outside of the root, as in PyTorch.
  bool torch_momentum = false;  // PyTorch's form instead of Keras'.
};

// Both forms of momentum are
//
//   b <- momentum * b + inflow * d
//   p <- p - step_size * b
//
// and without momentum b is zero before the step.
template <typename V, bool kMomentum, bool kCentered>
struct RmspropRule : RuleBase<struct Rmsprop, V, RmspropHyperparameters,
                              1 + kMomentum + kCentered> {
  TF_OPT_HOST_DEVICE RmspropRule(const RmspropHyperparameters& scalars,
                                 const VariableInputs& own)
      : rho(scalars.rho),
        one_minus_rho(1.0 - scalars.rho),
        momentum(scalars.momentum),
        inflow(scalars.torch_momentum
                   ? 1.0
                   : own.learning_rate_factor * scalars.learning_rate),
        step_size(StepSize(scalars, own)),
        epsilon_inside(scalars.torch_epsilon ? 0.0 : scalars.epsilon),
        epsilon_outside(scalars.torch_epsilon ? scalars.epsilon : 0.0) {}

  TF_OPT_HOST_DEVICE static double StepSize(
      const RmspropHyperparameters& scalars, const VariableInputs& own) {
    return scalars.torch_momentum
               ? own.learning_rate_factor * scalars.learning_rate
               : 1.0;
  }

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& v) const {
    V none = 0;
    Update(p, g, v, none, none);
  }
  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& v, V& slot) const {
    V none = 0;
    if constexpr (kMomentum) {
      Update(p, g, v, slot, none);
    } else {
      Update(p, g, v, none, slot);
    }
  }
  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& v, V& b, V& a) const {
    Update(p, g, v, b, a);
  }

  TF_OPT_RULE_INLINE void Update(V& p, const V& g, V& v, V& b, V& a) const {
    v = rho * v + one_minus_rho * (g * g);
    V variance = v;
    if constexpr (kCentered) {
      a = rho * a + one_minus_rho * g;
      // Rounding may make the difference negative.
      variance = Max(V(0), v - a * a);
    }
    const V root = Sqrt(variance + epsilon_inside) + epsilon_outside;
    const V direction = inflow * g / root;
    if constexpr (kMomentum) {
      b = momentum * b + direction;
      p = p - step_size * b;
    } else {
      p = p - step_size * direction;
    }
  }

  TF_OPT_HOST_DEVICE static MissedStep Missed(
      const RmspropHyperparameters& scalars, const VariableInputs& own) {
    MissedStep missed;
    missed.decays[0] = scalars.rho;
    if (kCentered) missed.decays[1 + kMomentum] = scalars.rho;
    if (kMomentum) {
      missed.moving_slot = 1;
      missed.decays[1] = scalars.momentum;
      missed.ratio = scalars.momentum;
      missed.step_size = StepSize(scalars, own);
    }
    return missed;
  }

  template <typename... Slots>
  TF_OPT_RULE_INLINE static V Direction(const V&, const V&, const V& b,
                                        const Slots&...) {
    return kMomentum ? b : V(0);
  }
  TF_OPT_RULE_INLINE static V Direction(const V&, const V&) { return 0; }

  V rho;
  V one_minus_rho;
  V momentum;
  V inflow;
  V step_size;
  V epsilon_inside;
  V epsilon_outside;
};

struct Rmsprop : DescriptionOf<RmspropHyperparameters, RmspropRule> {
  static constexpr bool kCoasts = true;
  static constexpr char kOp[] = "RMSprop";

  static constexpr Operand kSlotOperands[] = {
      {"velocity"},
      Operand::Optional("momentum_buffer"),
      Operand::Optional("average_gradient")};

  static constexpr ScalarInput kScalars[] = {
      TF_OPT_SCALAR(Hyperparameters, learning_rate),
      TF_OPT_SCALAR(Hyperparameters, rho, Range::kDecayRate),
      TF_OPT_SCALAR(Hyperparameters, momentum, Range::kFraction),
      TF_OPT_SCALAR(Hyperparameters, epsilon, Range::kNonNegative)};

  static constexpr ScalarInput kModes[] = {
      TF_OPT_SCALAR(Hyperparameters, torch_epsilon),
      TF_OPT_SCALAR(Hyperparameters, torch_momentum)};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_RMSPROP_H_
