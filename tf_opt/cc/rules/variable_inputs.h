// Scalars of a step for one variable.
#ifndef TF_OPT_CC_RULES_VARIABLE_INPUTS_H_
#define TF_OPT_CC_RULES_VARIABLE_INPUTS_H_

#include <cstdint>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

struct VariableInputs {
  template <typename Hyperparameters>
  TF_OPT_HOST_DEVICE double learning_rate(const Hyperparameters& shared) const {
    return learning_rate_factor * shared.learning_rate;
  }

  // Returns whether `number` is an integer, as it must be.
  TF_OPT_HOST_DEVICE bool HasNumber() const {
    return number == static_cast<double>(whole_number());
  }
  // Valid even if `number` is no integer: a device can't return an error.
  TF_OPT_HOST_DEVICE int64_t whole_number() const {
    return WholeNumber(number);
  }

  double weight_decay = 0.0;
  double learning_rate_factor = 1.0;
  double gradient_factor = 1.0;
  // Number of the variable, for its random bits.
  double number = 0.0;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_VARIABLE_INPUTS_H_
