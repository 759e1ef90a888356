// Gradients that are slices as arguments of a call; slices_of_call.h is
// the other side of it.
//
// They are a call's last arguments: all values, all indices, all accumulated
// rows if there are any, and a vector in int64 that says how many rows each of
// these has, as not all may count that there is room for.
#ifndef TF_OPT_CC_XLA_SLICE_ARGUMENTS_H_
#define TF_OPT_CC_XLA_SLICE_ARGUMENTS_H_

#include "absl/status/status.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "tf_opt/cc/xla/slice_operands.h"

namespace tf_opt {

absl::Status AddSlices(const SliceOperands& slices, CustomCall* call);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_SLICE_ARGUMENTS_H_
