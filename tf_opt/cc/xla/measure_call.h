// What a program compiled by XLA calls for TfOpt>MeasureGradients and
// TfOpt>MeasureSparseGradients.
//
// Arguments: dense gradients, accumulators if there are any, gradient_scale,
// enabled; then a vector in int64 that says how many elements of each dense
// gradient count, or of sparse ones what slice_arguments.h says. Results:
// sums_of_squares and finite. Attributes: the op's, and of sparse gradients
//
//   rows  how many each table has
#ifndef TF_OPT_CC_XLA_MEASURE_CALL_H_
#define TF_OPT_CC_XLA_MEASURE_CALL_H_

#include <string>

namespace tf_opt {

// Registers them under the ops' names, and the ops' kernels that call them.
bool RegisterMeasureForXla(const std::string& name,
                           const std::string& sparse_name);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_MEASURE_CALL_H_
