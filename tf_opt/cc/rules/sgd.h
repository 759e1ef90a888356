// SGD, with and without momentum; docs/formulas.md has the formula.
#ifndef TF_OPT_CC_RULES_SGD_H_
#define TF_OPT_CC_RULES_SGD_H_

#include <cstdint>

#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct SgdHyperparameters {
  double learning_rate = 1e-2;
  double momentum = 0.0;
  double dampening = 0.0;
  int64_t step = 1;  // Counted from 1.
  bool nesterov = false;
  bool torch_momentum = false;  // PyTorch's form instead of Keras'.
};

// Both forms of momentum are
//
//   b <- momentum * b + inflow * g
//   p <- p + step_size * (momentum * b + ahead * g), Nesterov, or
//   p <- p + step_size * b
template <typename V, bool kMomentum>
struct SgdRule
    : RuleBase<struct Sgd, V, SgdHyperparameters, kMomentum ? 1 : 0> {
  TF_OPT_HOST_DEVICE SgdRule(const SgdHyperparameters& scalars,
                             const VariableInputs& own)
      : learning_rate(own.learning_rate_factor * scalars.learning_rate),
        momentum(scalars.momentum),
        inflow(!scalars.torch_momentum ? -learning_rate
               : scalars.step == 1     ? V(1)
                                       : V(1.0 - scalars.dampening)),
        ahead(scalars.torch_momentum ? V(1) : -learning_rate),
        step_size(scalars.torch_momentum ? -learning_rate : V(1)),
        nesterov(scalars.nesterov ? V(1) : V(0)) {}

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g) const {
    static_assert(!kMomentum, "momentum keeps a slot");
    p = p - learning_rate * g;
  }

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& b) const {
    static_assert(kMomentum, "only momentum keeps a slot");
    b = momentum * b + inflow * g;
    // Not a factor of 0: an infinite gradient would make it NaN.
    const V change = Select(nesterov == V(1), momentum * b + ahead * g, b);
    p = p + step_size * change;
  }

  TF_OPT_HOST_DEVICE static MissedStep Missed(const SgdHyperparameters& scalars,
                                              const VariableInputs& own) {
    MissedStep missed;
    missed.step_size = (scalars.torch_momentum
                            ? own.learning_rate_factor * scalars.learning_rate
                            : -1.0) *
                       (scalars.nesterov ? scalars.momentum : 1.0);
    missed.ratio = scalars.momentum;
    missed.decays[0] = scalars.momentum;
    return missed;
  }

  TF_OPT_RULE_INLINE static V Direction(const V&) { return 0; }
  TF_OPT_RULE_INLINE static V Direction(const V&, const V& b) { return b; }

  V learning_rate;
  V momentum;
  V inflow;
  V ahead;
  V step_size;
  V nesterov;
};

struct Sgd : DescriptionOf<SgdHyperparameters, SgdRule> {
  static constexpr bool kCoasts = true;
  static constexpr char kOp[] = "SGD";

  static constexpr Operand kSlotOperands[] = {Operand::Optional("velocity")};

  static constexpr ScalarInput kScalars[] = {
      TF_OPT_SCALAR(Hyperparameters, learning_rate),
      TF_OPT_SCALAR(Hyperparameters, step, Range::kPositive),
      TF_OPT_SCALAR(Hyperparameters, momentum, Range::kFraction),
      TF_OPT_SCALAR(Hyperparameters, dampening)};

  static constexpr ScalarInput kModes[] = {
      TF_OPT_SCALAR(Hyperparameters, nesterov),
      TF_OPT_SCALAR(Hyperparameters, torch_momentum)};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_SGD_H_
