// What a program compiled by XLA calls for TfOpt>MeasureGradients.
//
// Arguments: the gradients, their accumulators if there are any, gradient_scale
// and enabled. Results: sums_of_squares and finite. Attributes: the op's.
#ifndef TF_OPT_CC_XLA_MEASURE_CALL_H_
#define TF_OPT_CC_XLA_MEASURE_CALL_H_

#include <string>

namespace tf_opt {

// Registers it under the op's name, and the op's kernel that calls it.
bool RegisterMeasureForXla(const std::string& name);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_MEASURE_CALL_H_
