// FTRL-Proximal; docs/formulas.md has the formula and its source. The factors
// of 2 and the shrinkage are TensorFlow's. Python has other powers of n than
// the root.
#ifndef TF_OPT_CC_RULES_FTRL_H_
#define TF_OPT_CC_RULES_FTRL_H_

#include "tf_opt/cc/rules/rule_parts.h"

namespace tf_opt {

struct FtrlHyperparameters {
  double learning_rate = 1e-3;
  double l1_regularization_strength = 0.0;
  double l2_regularization_strength = 0.0;
  double l2_shrinkage_regularization_strength = 0.0;
  double beta = 0.0;
};

template <typename V, bool...>
struct FtrlRule : RuleBase<struct Ftrl, V, FtrlHyperparameters, 2> {
  TF_OPT_HOST_DEVICE FtrlRule(const FtrlHyperparameters& scalars,
                              const VariableInputs& own) {
    const double rate = own.learning_rate_factor * scalars.learning_rate;
    const bool moves = rate != 0.0;
    const double inverse = moves ? 1.0 / rate : 0.0;
    inflow = moves ? 1.0 : 0.0;
    inverse_rate = inverse;
    l1 = scalars.l1_regularization_strength;
    strength = moves ? scalars.beta * inverse +
                           2.0 * scalars.l2_regularization_strength
                     : 1.0;
    shrinkage =
        moves ? 2.0 * scalars.l2_shrinkage_regularization_strength : 0.0;
  }

  TF_OPT_RULE_INLINE void operator()(V& p, V g, V& n, V& z) const {
    g = inflow * g;
    const V root = Sqrt(n);
    n = n + g * g;
    const V new_root = Sqrt(n);
    z = z + (g + shrinkage * p - (new_root - root) * inverse_rate * p);
    const V leader = Max(-l1, Min(l1, z)) - z;
    const V divisor = new_root * inverse_rate + strength;
    // What is divided is selected, not the quotient: around a division,
    // compilers would branch. Zero over zero is zero.
    p = Select(inflow == V(0), p, leader) /
        Select(leader == V(0), V(1), divisor);
  }

  V inflow;  // 0 without a learning rate, else 1.
  V inverse_rate;
  V l1;
  V strength;
  V shrinkage;
};

struct Ftrl : DescriptionOf<FtrlHyperparameters, FtrlRule> {
  static constexpr char kOp[] = "Ftrl";

  static constexpr Operand kSlotOperands[] = {{"accumulator"}, {"linear"}};

  static constexpr ScalarInput kScalars[] = {
      TF_OPT_SCALAR(Hyperparameters, learning_rate),
      TF_OPT_SCALAR(Hyperparameters, l1_regularization_strength,
                    Range::kNonNegative),
      TF_OPT_SCALAR(Hyperparameters, l2_regularization_strength,
                    Range::kNonNegative),
      TF_OPT_SCALAR(Hyperparameters, l2_shrinkage_regularization_strength,
                    Range::kNonNegative),
      TF_OPT_SCALAR(Hyperparameters, beta, Range::kNonNegative)};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_FTRL_H_
