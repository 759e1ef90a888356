// What a step knows of a single variable, besides what all share.
#ifndef TF_OPT_CC_RULES_VARIABLE_INPUTS_H_
#define TF_OPT_CC_RULES_VARIABLE_INPUTS_H_

#include <cstdint>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

template <typename Numbers>
struct VariableInputsOf {
  using Real = typename Numbers::Real;

  template <typename Hyperparameters>
  TF_OPT_HOST_DEVICE Real learning_rate(const Hyperparameters& shared) const {
    return learning_rate_factor * shared.learning_rate;
  }

  // Whether `number` is an integer, as it must be.
  TF_OPT_HOST_DEVICE typename Numbers::Boolean HasNumber() const {
    return number == static_cast<Real>(whole_number());
  }
  // Also where it isn't one, on a device that can't return an error.
  TF_OPT_HOST_DEVICE typename Numbers::Integer whole_number() const {
    return WholeNumber(number);
  }

  Real weight_decay = 0.0;
  Real learning_rate_factor = 1.0;
  Real gradient_factor = 1.0;
  // Which of all variables it is, for its random bits.
  Real number = 0.0;
};

using VariableInputs = VariableInputsOf<HostNumbers>;

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_VARIABLE_INPUTS_H_
