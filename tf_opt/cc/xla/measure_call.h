// What a program compiled by XLA calls for TfOpt>MeasureGradients and
// TfOpt>MeasureSparseGradients.
//
// Arguments: dense gradients, accumulators if there are any, gradient_scale,
// enabled, and of sparse gradients what slice_arguments.h says. Results:
// sums_of_squares and finite. Attributes: the op's.
#ifndef TF_OPT_CC_XLA_MEASURE_CALL_H_
#define TF_OPT_CC_XLA_MEASURE_CALL_H_

#include <string>

namespace tf_opt {

// Registers them under the ops' names, and the ops' kernels that call them.
bool RegisterMeasureForXla(const std::string& name,
                           const std::string& sparse_name);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_MEASURE_CALL_H_
