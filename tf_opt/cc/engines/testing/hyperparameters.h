// Hyperparameters for tests of any rule, such that each of its parts counts.
#ifndef TF_OPT_CC_ENGINES_TESTING_HYPERPARAMETERS_H_
#define TF_OPT_CC_ENGINES_TESTING_HYPERPARAMETERS_H_

#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {

// A number in this range for step t.
inline double NumberIn(Range range, int t) {
  switch (range) {
    case Range::kDecayRate:
      return 0.75;
    case Range::kFraction:
      return 0.5;
    case Range::kNonNegative:
      return 0.0625 / t;
    case Range::kPositive:
      return t;
    default:
      return 0.45;
  }
}

// The hyperparameters of step t without any mode.
template <typename Description>
typename Description::Hyperparameters HyperparametersAt(int t) {
  typename Description::Hyperparameters hyperparameters;
  for (const auto& input : Description::kScalars) {
    if (input.integer != nullptr) {
      hyperparameters.*input.integer = t;
    } else {
      hyperparameters.*input.number = NumberIn(input.range, t);
    }
  }
  return hyperparameters;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_HYPERPARAMETERS_H_
