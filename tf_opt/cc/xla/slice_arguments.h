// An op's inputs that are slices, as arguments of a call; slices_of_call.h is
// the other side of it.
//
// They are a call's last arguments: all values, all indices, all accumulated
// rows if there are any, and a vector in int64 that says how many rows each of
// these has, as not all may count that there is room for.
#ifndef TF_OPT_CC_XLA_SLICE_ARGUMENTS_H_
#define TF_OPT_CC_XLA_SLICE_ARGUMENTS_H_

#include <vector>

#include "absl/status/status.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/xla/custom_call.h"

namespace tf_opt {

// Checks their shapes against those of the tables and adds them.
absl::Status AddSlices(tensorflow::XlaOpKernelContext* context,
                       const SliceAttributes& attributes,
                       const std::vector<tensorflow::TensorShape>& tables,
                       CustomCall* call);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_SLICE_ARGUMENTS_H_
