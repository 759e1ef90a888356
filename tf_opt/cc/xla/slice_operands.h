// Gradients that are slices, as arguments of a call. FfiCall::FindSlices reads
// them.
#ifndef TF_OPT_CC_XLA_SLICE_OPERANDS_H_
#define TF_OPT_CC_XLA_SLICE_OPERANDS_H_

#include <vector>

#include "absl/status/status.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/xla/custom_call.h"

namespace tf_opt {

// Reads the slices of an op, checks their shapes against those of the tables,
// and adds them to a call as its last arguments.
absl::Status AddSlices(tensorflow::XlaOpKernelContext* context,
                       const SliceAttributes& attributes,
                       const std::vector<tensorflow::TensorShape>& tables,
                       CustomCall* call);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_SLICE_OPERANDS_H_
