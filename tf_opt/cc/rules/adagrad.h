// Adagrad: the learning rate of each element falls with the sum of its squared
// gradients.
//
//   g <- -g                               if maximize
//   g <- g + wd * p                       L2 decay, or
//   p <- p - lr * wd * p                  decoupled decay
//   a <- a + g^2
//   p <- p - lr * g / sqrt(a + epsilon)   as in Keras, or
//   p <- p - lr * g / (sqrt(a) + epsilon) as in PyTorch
//
// Duchi et al. 2011, "Adaptive Subgradient Methods for Online Learning and
// Stochastic Optimization".
#ifndef TF_OPT_CC_RULES_ADAGRAD_H_
#define TF_OPT_CC_RULES_ADAGRAD_H_

#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/rule_parts.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

struct Adagrad;

struct AdagradHyperparameters {
  double learning_rate = 1e-3;
  double epsilon = 1e-7;
  bool maximize = false;
  bool torch_epsilon = false;  // Outside of the root, as in PyTorch.
};

// One element's update. `V` is the arithmetic type.
template <typename V, bool kL2>
struct AdagradRule : RuleBase<Adagrad, V, AdagradHyperparameters, 1> {
  TF_OPT_HOST_DEVICE AdagradRule(const AdagradHyperparameters& step,
                                 const VariableInputs& own)
      : descent(step, own),
        learning_rate(own.learning_rate_factor * step.learning_rate),
        epsilon_inside(step.torch_epsilon ? 0.0 : step.epsilon),
        epsilon_outside(step.torch_epsilon ? step.epsilon : 0.0) {}

  TF_OPT_RULE_INLINE void operator()(V& p, V g, V& a) const {
    g = descent.Gradient(g, p);
    a = a + g * g;
    const V root = Sqrt(a + epsilon_inside) + epsilon_outside;
    p = descent.keep * p - learning_rate * g / root;
  }

  // Without a gradient only decay moves a row.
  static MissedStep Missed(const AdagradHyperparameters& step,
                           const VariableInputs& own) {
    MissedStep missed;
    missed.keep = Descent<V, kL2>::Keep(step, own);
    return missed;
  }

  TF_OPT_RULE_INLINE static V Direction(const V&, const V&) { return 0; }

  Descent<V, kL2> descent;
  V learning_rate;
  V epsilon_inside;
  V epsilon_outside;
};

// Description of the rule for the op and the engines.
struct Adagrad : DescriptionOf<AdagradHyperparameters, AdagradRule> {
  static constexpr bool kCoasts = true;
  static constexpr char kOp[] = "Adagrad";

  static constexpr Operand kSlotOperands[] = {{"accumulator"}};

  static constexpr ScalarInput<Hyperparameters> kScalars[] = {
      {"learning_rate", &AdagradHyperparameters::learning_rate},
      {"epsilon", &AdagradHyperparameters::epsilon, Range::kNonNegative}};

  static constexpr ScalarInput<Hyperparameters> kModes[] = {
      {"torch_epsilon", &AdagradHyperparameters::torch_epsilon}};
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_ADAGRAD_H_
