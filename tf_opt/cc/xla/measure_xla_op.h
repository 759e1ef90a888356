// TfOpt>MeasureGradients and TfOpt>MeasureSparseGradients in a program that XLA
// compiles for the CPU: a call of what measure_call.h says.
#ifndef TF_OPT_CC_XLA_MEASURE_XLA_OP_H_
#define TF_OPT_CC_XLA_MEASURE_XLA_OP_H_

#include <string>

namespace tf_opt {

bool RegisterMeasureXlaOp(const std::string& name, bool sparse);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_MEASURE_XLA_OP_H_
