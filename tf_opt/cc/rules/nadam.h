// NAdam: Adam with Nesterov momentum, on a schedule.
//
//   g <- -g                               if maximize
//   g <- g + wd * p                       L2 decay, or
//   p <- p - lr * wd * p                  decoupled decay
//   mu_t <- beta_1 * (1 - 0.96^(t * momentum_decay) / 2)
//   P <- P * mu_t                         once a step
//   m <- beta_1 * m + (1 - beta_1) * g
//   v <- beta_2 * v + (1 - beta_2) * g^2
//   p <- p - lr * (mu_{t+1} * m / (1 - P * mu_{t+1})
//                  + (1 - mu_t) * g / (1 - P))
//            / (sqrt(v / (1 - beta_2^t)) + epsilon)
//
// Dozat 2016, "Incorporating Nesterov Momentum into Adam"; the schedule is
// that of PyTorch and Paddle (momentum_decay = 1: Keras).
#ifndef TF_OPT_CC_RULES_NADAM_H_
#define TF_OPT_CC_RULES_NADAM_H_

#include <cstdint>

#include "tf_opt/cc/rules/descent.h"
#include "tf_opt/cc/rules/moments.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/power.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/variable_inputs.h"

namespace tf_opt {

struct NAdam;

template <typename N>
struct NAdamHyperparametersOf {
  using Numbers = N;

  typename N::Real learning_rate = 2e-3;
  typename N::Real beta_1 = 0.9;
  typename N::Real beta_2 = 0.999;
  typename N::Real epsilon = 1e-8;
  typename N::Real momentum_decay = 4e-3;
  // P before the step: the product of mu_1 to mu_{t-1}.
  typename N::Real momentum_product = 1.0;
  typename N::Integer step = 1;  // t, counted from 1.
  bool maximize = false;
};

// What is the same for every variable of a step. In float64, computed once.
template <typename N>
struct NAdamStepOf {
  using Hyperparameters = NAdamHyperparametersOf<N>;
  using Real = typename N::Real;

  TF_OPT_HOST_DEVICE explicit NAdamStepOf(const Hyperparameters& h)
      : hyperparameters(h) {
    const Real momentum = Momentum(h.step);
    const Real next_momentum = Momentum(h.step + 1.0);
    const Real product = h.momentum_product * momentum;
    moment_size =
        h.learning_rate * next_momentum / (1.0 - product * next_momentum);
    gradient_size = h.learning_rate * (1.0 - momentum) / (1.0 - product);
    root_scale = 1.0 / Sqrt(1.0 - Power(h.beta_2, h.step));
  }

  // mu_t.
  TF_OPT_HOST_DEVICE Real Momentum(Real t) const {
    const Real decay = Power(0.96, t * hyperparameters.momentum_decay);
    return hyperparameters.beta_1 * (1.0 - 0.5 * decay);
  }

  Hyperparameters hyperparameters;
  Real moment_size;
  Real gradient_size;
  Real root_scale;
};

using NAdamHyperparameters = NAdamHyperparametersOf<HostNumbers>;
using NAdamStep = NAdamStepOf<HostNumbers>;

// One element's update. `V` is the arithmetic type.
template <typename V, bool kL2>
struct NAdamRule {
  using Description = NAdam;
  using Value = V;
  using Numbers = NumbersOf<V>;
  using Step = NAdamStepOf<Numbers>;
  static constexpr int kSlots = 2;
  static constexpr bool kAsksHowSlotHolds = false;
  static constexpr bool kVariableShowsNan = true;

  TF_OPT_HOST_DEVICE NAdamRule(const Step& step,
                               const VariableInputsOf<Numbers>& own)
      : descent(own.learning_rate(step.hyperparameters),
                step.hyperparameters.maximize, own.weight_decay),
        moments(step.hyperparameters.beta_1, step.hyperparameters.beta_2),
        moment_size(own.learning_rate_factor * step.moment_size),
        gradient_size(own.learning_rate_factor * step.gradient_size),
        root_scale(step.root_scale),
        epsilon(step.hyperparameters.epsilon) {}

  TF_OPT_RULE_INLINE void operator()(V& p, V g, V& m, V& v) const {
    g = descent.Gradient(g, p);
    moments.Update(g, m, v);
    p = descent.keep * p - (moment_size * m + gradient_size * g) /
                               (Sqrt(v) * root_scale + epsilon);
  }

  Descent<V, kL2> descent;
  Moments<V> moments;
  V moment_size;
  V gradient_size;
  V root_scale;
  V epsilon;
};

// What the op and the engines need to know.
struct NAdam {
  template <typename N>
  using HyperparametersOf = NAdamHyperparametersOf<N>;

  static constexpr Operand kSlotOperands[] = {{"m"}, {"v"}};
  template <typename N>
  static constexpr ScalarInput<HyperparametersOf<N>> kScalarsOf[] = {
      {"learning_rate", &NAdamHyperparametersOf<N>::learning_rate},
      {"step", &NAdamHyperparametersOf<N>::step, Range::kPositive},
      {"momentum_product", &NAdamHyperparametersOf<N>::momentum_product},
      {"beta_1", &NAdamHyperparametersOf<N>::beta_1, Range::kDecayRate},
      {"beta_2", &NAdamHyperparametersOf<N>::beta_2, Range::kDecayRate},
      {"epsilon", &NAdamHyperparametersOf<N>::epsilon, Range::kNonNegative},
      {"momentum_decay", &NAdamHyperparametersOf<N>::momentum_decay,
       Range::kNonNegative}};
  using Hyperparameters = NAdamHyperparameters;
  static constexpr auto& kScalars = kScalarsOf<HostNumbers>;

  // Returns use(TypeTag<...>()) with the rule of these modes.
  template <typename V, typename Use>
  static auto ChooseRule(bool l2, const Use& use) {
    return l2 ? use(TypeTag<NAdamRule<V, true>>())
              : use(TypeTag<NAdamRule<V, false>>());
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_NADAM_H_
