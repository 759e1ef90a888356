// Parts that rules share. A rule's header includes this and, for powers,
// power.h.
#ifndef TF_OPT_CC_RULES_RULE_PARTS_H_
#define TF_OPT_CC_RULES_RULE_PARTS_H_

#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Base of a rule, the update of one element: what a description, the engines
// and the loops ask it. A rule that differs declares its own constant. The
// description follows the rule, so that RuleBase<struct Foo, ...> declares it.
template <typename Description_, typename V, typename Scalars_, int kSlots_>
struct RuleBase {
  static_assert(kSlots_ <= kMostSlots, "no room for the slots");
  using Description = Description_;
  using Value = V;  // The arithmetic type.
  // A step's scalars, made of the hyperparameters: computed once in float64,
  // the same for every variable.
  using Scalars = Scalars_;
  static constexpr int kSlots = kSlots_;  // Of each element.
  static constexpr bool kRowWise = false;
  // Whether decoupled decay is the rule's, `own.weight_decay`; otherwise the
  // variable has shrunk before.
  static constexpr bool kTakesDecay = false;
  // Factor that a decay of the rule's own leaves of the variable.
  TF_OPT_HOST_DEVICE static double Kept(const Scalars&, const VariableInputs&) {
    return 1.0;
  }
  // These two are for rules in which nothing but decay moves rows that wait.
  TF_OPT_HOST_DEVICE static MissedStep Missed(const Scalars&,
                                              const VariableInputs&) {
    return {};
  }
  template <typename... Slots>
  TF_OPT_RULE_INLINE static V Direction(const V&, const Slots&...) {
    return 0;
  }
  // Whether the gradient is rounded to the type of the last slot.
  static constexpr bool kRoundsGradientLikeSlot = false;
};

// Factor that a decay leaves of a variable: 1 without decay, even if the step
// size is infinite and their product NaN.
TF_OPT_RULE_INLINE double KeptPart(double step_size, double decay) {
  return decay == 0.0 ? 1.0 : 1.0 - step_size * decay;
}

// The moving averages of the Adam family:
//
//   m <- beta_1 * m + (1 - beta_1) * g
//   v <- beta_2 * v + (1 - beta_2) * g^2
template <typename V>
struct Moments {
  template <typename Hyperparameters>
  TF_OPT_HOST_DEVICE explicit Moments(const Hyperparameters& shared)
      : beta_1(shared.beta_1),
        one_minus_beta_1(1.0 - shared.beta_1),
        beta_2(shared.beta_2),
        one_minus_beta_2(1.0 - shared.beta_2) {}

  TF_OPT_RULE_INLINE void Update(const V& g, V& m, V& v) const {
    m = beta_1 * m + one_minus_beta_1 * g;
    v = beta_2 * v + one_minus_beta_2 * (g * g);
  }

  // A missed step along m / (sqrt(v) + epsilon). `root_decay` is the factor of
  // the root: 1 if a maximum, which stays, takes the place of v.
  template <typename Hyperparameters>
  TF_OPT_HOST_DEVICE static MissedStep Missed(const Hyperparameters& shared,
                                              double step_size, double epsilon,
                                              double root_decay) {
    MissedStep missed;
    missed.step_size = step_size;
    missed.ratio = shared.beta_1 / root_decay;
    missed.epsilon = epsilon;
    missed.epsilon_growth = 1.0 / root_decay;
    missed.decays[0] = shared.beta_1;
    missed.decays[1] = shared.beta_2;
    return missed;
  }

  TF_OPT_RULE_INLINE static V Direction(const V& epsilon, const V& m,
                                        const V& v) {
    return m / (Sqrt(v) + epsilon);
  }

  V beta_1;
  V one_minus_beta_1;
  V beta_2;
  V one_minus_beta_2;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_RULE_PARTS_H_
