// AveragedSGD: stochastic gradient descent that keeps the variable's average.
//
//   g <- -g                               if maximize
//   g <- g + wd * p                       L2 decay, or
//   p <- p - lr * wd * p                  decoupled decay
//   p <- p * (1 - lambd * eta) - eta * g
//   ax <- p                               while mu is 1, else
//   ax <- ax + mu * (p - ax)
//
// with eta, the step size, from the step before (the learning rate in the
// first), and mu = 1 / max(1, t - 1 - t0).
//
// Polyak & Juditsky 1992, "Acceleration of Stochastic Approximation by
// Averaging"; as in PyTorch's ASGD.
#ifndef TF_OPT_CC_RULES_AVERAGED_SGD_H_
#define TF_OPT_CC_RULES_AVERAGED_SGD_H_

#include <cstdint>

#include "tf_opt/cc/rules/descent.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/variable_inputs.h"

namespace tf_opt {

struct AveragedSgd;

template <typename N>
struct AveragedSgdHyperparametersOf {
  using Numbers = N;

  typename N::Real learning_rate = 1e-2;
  typename N::Real eta = 1e-2;
  typename N::Real lambd = 1e-4;
  typename N::Real t0 = 1e6;
  typename N::Integer step = 1;  // t, counted from 1.
  bool maximize = false;
};

// What is the same for every variable of a step. In float64, computed once.
template <typename N>
struct AveragedSgdStepOf {
  using Hyperparameters = AveragedSgdHyperparametersOf<N>;
  using Real = typename N::Real;

  TF_OPT_HOST_DEVICE explicit AveragedSgdStepOf(const Hyperparameters& h)
      : hyperparameters(h), mu(1.0 / Max(1.0, h.step - 1 - h.t0)) {}

  Hyperparameters hyperparameters;
  Real mu;
};

using AveragedSgdHyperparameters = AveragedSgdHyperparametersOf<HostNumbers>;
using AveragedSgdStep = AveragedSgdStepOf<HostNumbers>;

// One element's update. `V` is the arithmetic type.
template <typename V, bool kL2>
struct AveragedSgdRule {
  using Description = AveragedSgd;
  using Value = V;
  using Numbers = NumbersOf<V>;
  using Step = AveragedSgdStepOf<Numbers>;
  static constexpr int kSlots = 1;
  static constexpr bool kAsksHowSlotHolds = false;
  static constexpr bool kVariableShowsNan = false;

  TF_OPT_HOST_DEVICE AveragedSgdRule(const Step& step,
                                     const VariableInputsOf<Numbers>& own)
      : descent(own.learning_rate(step.hyperparameters),
                step.hyperparameters.maximize, own.weight_decay,
                1.0 - step.hyperparameters.lambd * own.learning_rate_factor *
                          step.hyperparameters.eta),
        eta(own.learning_rate_factor * step.hyperparameters.eta),
        mu(step.mu) {}

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& ax) const {
    p = descent.keep * p - eta * descent.Gradient(g, p);
    // While mu is 1 a copy, also of what was no number. And not
    // (1 - mu) * ax + mu * p: the first factor's rounding would shrink or grow
    // a long average by the same bit in every step.
    ax = Select(mu == V(1), p, ax + mu * (p - ax));
  }

  Descent<V, kL2> descent;
  V eta;
  V mu;
};

// What the op and the engines need to know.
struct AveragedSgd {
  template <typename N>
  using HyperparametersOf = AveragedSgdHyperparametersOf<N>;

  static constexpr Operand kSlotOperands[] = {{"ax"}};
  template <typename N>
  static constexpr ScalarInput<HyperparametersOf<N>> kScalarsOf[] = {
      {"learning_rate", &AveragedSgdHyperparametersOf<N>::learning_rate},
      // Negative while the average is in the variables' place.
      {"eta", &AveragedSgdHyperparametersOf<N>::eta, Range::kNonNegative},
      {"step", &AveragedSgdHyperparametersOf<N>::step, Range::kPositive},
      {"lambd", &AveragedSgdHyperparametersOf<N>::lambd, Range::kNonNegative},
      {"t0", &AveragedSgdHyperparametersOf<N>::t0, Range::kNonNegative}};
  using Hyperparameters = AveragedSgdHyperparameters;
  static constexpr auto& kScalars = kScalarsOf<HostNumbers>;

  // Returns use(TypeTag<...>()) with the rule of these modes.
  template <typename V, typename Use>
  static auto ChooseRule(bool l2, const Use& use) {
    return l2 ? use(TypeTag<AveragedSgdRule<V, true>>())
              : use(TypeTag<AveragedSgdRule<V, false>>());
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_AVERAGED_SGD_H_
