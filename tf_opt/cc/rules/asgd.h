// ASGD, the stochastic average gradient: of every batch the last gradient is
// kept, and a step follows the mean of all of them.
//
//   g <- -g                               if maximize
//   g <- g + wd * p                       L2 decay, or
//   p <- p - lr * wd * p                  decoupled decay
//   g <- g rounded to the type of y       where that is shorter
//   d <- d - y + g                        y: this batch's gradient of last time
//   y <- g
//   p <- p - lr / n * d                   n: how many batches have been seen
//
// Schmidt, Le Roux & Bach 2017, "Minimizing Finite Sums with the Stochastic
// Average Gradient"; as in Paddle's ASGD, L2 decay is part of y.
#ifndef TF_OPT_CC_RULES_ASGD_H_
#define TF_OPT_CC_RULES_ASGD_H_

#include <cstdint>

#include "tf_opt/cc/rules/descent.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/variable_inputs.h"

namespace tf_opt {

struct Asgd;

struct AsgdHyperparameters {
  double learning_rate = 1e-3;
  int64_t seen_batches = 1;  // n, this one included.
  bool maximize = false;
};

// What is the same for every variable of a step. In float64, computed once.
struct AsgdStep {
  using Hyperparameters = AsgdHyperparameters;
  TF_OPT_HOST_DEVICE explicit AsgdStep(const Hyperparameters& h)
      : hyperparameters(h), step_size(h.learning_rate / h.seen_batches) {}

  Hyperparameters hyperparameters;
  double step_size;
};

// sum - old_term + new_term, rounded once. Rounding the intermediate result too
// would leave an error of the terms' size in every step, and the same one again
// and again once the terms have settled: in a million steps that was as much as
// 6 % of a term. This is Knuth's TwoSum, twice: each sum with its exact error.
template <typename V>
TF_OPT_RULE_INLINE V ReplaceTerm(V sum, V old_term, V new_term) {
  const V change = new_term - old_term;
  const V new_part = change + old_term;
  const V change_error =
      (new_term - new_part) - (old_term - (new_part - change));
  const V result = sum + change;
  const V change_part = result - sum;
  const V result_error =
      (sum - (result - change_part)) + (change - change_part);
  return result + (change_error + result_error);
}

// One element's update. `V` is the arithmetic type.
template <typename V, bool kL2>
struct AsgdRule {
  using Description = Asgd;
  using Value = V;
  using Step = AsgdStep;
  static constexpr int kSlots = 2;
  static constexpr bool kAsksHowSlotHolds = true;
  static constexpr bool kVariableShowsNan = true;

  TF_OPT_HOST_DEVICE AsgdRule(const Step& step, const VariableInputs& own)
      : descent(own.learning_rate(step.hyperparameters),
                step.hyperparameters.maximize, own.weight_decay),
        step_size(own.learning_rate_factor * step.step_size) {}

  // held(x) is x as the last slot, y, holds it.
  template <typename Held>
  TF_OPT_RULE_INLINE void operator()(V& p, V g, V& d, V& y,
                                     const Held& held) const {
    // Before it becomes part of the sum: what leaves that must be what entered
    // it, or the sum is wrong by the difference for ever.
    g = held(descent.Gradient(g, p));
    d = ReplaceTerm(d, y, g);
    y = g;
    p = descent.keep * p - step_size * d;
  }

  Descent<V, kL2> descent;
  V step_size;
};

// What the op and the engines need to know.
struct Asgd {
  using Hyperparameters = AsgdHyperparameters;

  static constexpr Operand kSlotOperands[] = {
      Operand("d").Stored(Storage::kArithmetic),
      Operand::RowOfTable("y", "batch_index").Rounded(Rounding::kToNearest)};
  static constexpr ScalarInput<Hyperparameters> kScalars[] = {
      {"learning_rate", &AsgdHyperparameters::learning_rate},
      {"seen_batches", &AsgdHyperparameters::seen_batches, Range::kPositive}};

  // Returns use(TypeTag<...>()) with the rule of these modes.
  template <typename V, typename Use>
  static auto ChooseRule(bool l2, const Use& use) {
    return l2 ? use(TypeTag<AsgdRule<V, true>>())
              : use(TypeTag<AsgdRule<V, false>>());
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_ASGD_H_
