// Adagrad and its row-wise form; docs/formulas.md and docs/formulas-sparse.md
// have the formulas and their sources.
#ifndef TF_OPT_CC_RULES_ADAGRAD_H_
#define TF_OPT_CC_RULES_ADAGRAD_H_

#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct AdagradHyperparameters {
  double learning_rate = 1e-3;
  double epsilon = 1e-7;
  bool torch_epsilon = false;  // Outside of the root, as in PyTorch.
};

template <typename V, bool kRowWise_>
struct AdagradRule
    : RuleBase<struct Adagrad, V, AdagradHyperparameters, kRowWise_ ? 0 : 1> {
  static constexpr bool kRowWise = kRowWise_;

  TF_OPT_HOST_DEVICE AdagradRule(const AdagradHyperparameters& scalars,
                                 const VariableInputs& own)
      : learning_rate(own.learning_rate_factor * scalars.learning_rate),
        epsilon_inside(scalars.torch_epsilon ? 0.0 : scalars.epsilon),
        epsilon_outside(scalars.torch_epsilon ? scalars.epsilon : 0.0) {}

  TF_OPT_RULE_INLINE void operator()(V& p, const V& g, V& a) const {
    a = a + g * g;
    p = p - learning_rate * g / Root(a);
  }

  // The element of a row, given the rule of the row.
  TF_OPT_RULE_INLINE void operator()(V& p, const V& g) const {
    p = p - learning_rate * g;
  }

  TF_OPT_RULE_INLINE AdagradRule ForRow(const V& mean_square, V* a) const {
    *a = CanonicalNan(*a + mean_square);
    AdagradRule row = *this;
    row.learning_rate = learning_rate / Root(*a);
    return row;
  }

  TF_OPT_RULE_INLINE V Root(const V& a) const {
    return Sqrt(a + epsilon_inside) + epsilon_outside;
  }

  V learning_rate;
  V epsilon_inside;
  V epsilon_outside;
};

struct Adagrad : DescriptionOf<AdagradHyperparameters, AdagradRule> {
  static constexpr bool kCoasts = true;
  static constexpr char kOp[] = "Adagrad";

  static constexpr Operand kSlotOperands[] = {
      Operand::MayBeByRow("accumulator")};

  static constexpr ScalarInput kScalars[] = {
      TF_OPT_SCALAR(Hyperparameters, learning_rate),
      TF_OPT_SCALAR(Hyperparameters, epsilon, Range::kNonNegative)};

  static constexpr ScalarInput kModes[] = {
      TF_OPT_SCALAR(Hyperparameters, torch_epsilon)};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_ADAGRAD_H_
