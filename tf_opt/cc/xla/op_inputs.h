// Inputs of an op that XLA compiles.
#ifndef TF_OPT_CC_XLA_OP_INPUTS_H_
#define TF_OPT_CC_XLA_OP_INPUTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

// An input that is a list.
struct InputList {
  int begin;  // Index of the first one among the op's inputs.
  int count;
};

absl::StatusOr<InputList> ListOf(tensorflow::XlaOpKernelContext* context,
                                 const std::string& name);

// Returns the shape of an input; its upper bound if XLA doesn't know it.
absl::StatusOr<tensorflow::TensorShape> ShapeOf(
    tensorflow::XlaOpKernelContext* context, int input);
absl::StatusOr<tensorflow::TensorShape> ShapeOf(
    tensorflow::XlaOpKernelContext* context, const std::string& name);

// Returns the shape of a value of the program.
absl::StatusOr<tensorflow::TensorShape> ShapeOf(xla::XlaOp value);

// Reads a tensor. XLA may know only an upper bound of its size: `count` becomes
// the number of elements that count, in int64. Missing elements within a row
// are read as zeros.
absl::Status ReadTensor(tensorflow::XlaOpKernelContext* context, int input,
                        xla::XlaOp* value, xla::XlaOp* count);

// Reads a tensor that should have this shape. If XLA knows only an upper bound
// of its size, the value is cut to the shape and `fits` becomes a boolean of
// the program, true if the size is right; otherwise `fits` isn't changed.
absl::Status ReadTensorOfShape(tensorflow::XlaOpKernelContext* context,
                               int input,
                               const tensorflow::TensorShape& expected,
                               xla::XlaOp* value, xla::XlaOp* fits);

// Checks the sparse gradients of an op against the shapes of their tables and
// adds them to a call as its last arguments, for FfiCall::FindSlices.
absl::Status AddSlices(tensorflow::XlaOpKernelContext* context,
                       const SliceAttributes& attributes,
                       const std::vector<tensorflow::TensorShape>& tables,
                       CustomCall* call);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_OP_INPUTS_H_
