// ASGD, the stochastic average gradient; docs/formulas.md has the formula and
// its source. As in Paddle's ASGD, L2 decay is part of y.
#ifndef TF_OPT_CC_RULES_ASGD_H_
#define TF_OPT_CC_RULES_ASGD_H_

#include <cstdint>

#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct AsgdHyperparameters {
  double learning_rate = 1e-3;
  int64_t seen_batches = 1;  // n, this one included.
};

// sum - old_term + new_term, rounded once. Rounding the intermediate result too
// would leave an error of the terms' size in every step, and the same error
// again and again once the terms have settled: after a million steps it reached
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

template <typename V, bool...>
struct AsgdRule : RuleBase<struct Asgd, V, AsgdHyperparameters, 2> {
  static constexpr bool kRoundsGradientLikeSlot = true;

  TF_OPT_HOST_DEVICE AsgdRule(const AsgdHyperparameters& scalars,
                              const VariableInputs& own)
      : step_size(own.learning_rate_factor *
                  (scalars.learning_rate / scalars.seen_batches)) {}

  // held(x) is x rounded to the type of the last slot, y.
  template <typename Held>
  TF_OPT_RULE_INLINE void operator()(V& p, V g, V& d, V& y,
                                     const Held& held) const {
    // Round before the gradient enters the sum: it must leave the sum with the
    // same bits, or the sum stays wrong for ever.
    g = held(g);
    d = ReplaceTerm(d, y, g);
    y = g;
    p = p - step_size * d;
  }

  V step_size;
};

struct Asgd : DescriptionOf<AsgdHyperparameters, AsgdRule> {
  static constexpr char kOp[] = "ASGD";

  static constexpr Operand kSlotOperands[] = {
      Operand("d").Stored(Storage::kArithmetic),
      Operand::Stacked("y", "batch_index").Rounded(Rounding::kToNearest)};

  static constexpr ScalarInput kScalars[] = {
      TF_OPT_SCALAR(Hyperparameters, learning_rate),
      TF_OPT_SCALAR(Hyperparameters, seen_batches, Range::kPositive)};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_ASGD_H_
