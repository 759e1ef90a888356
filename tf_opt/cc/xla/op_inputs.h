// The inputs of an op that XLA compiles.
#ifndef TF_OPT_CC_XLA_OP_INPUTS_H_
#define TF_OPT_CC_XLA_OP_INPUTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

// An op's input that is a list.
struct InputList {
  int begin;  // The first one's number among the op's inputs.
  int count;
};

absl::StatusOr<InputList> ListOf(tensorflow::XlaOpKernelContext* context,
                                 const std::string& name);

// The shape of an op's input; the largest one, if it isn't known.
absl::StatusOr<tensorflow::TensorShape> ShapeOf(
    tensorflow::XlaOpKernelContext* context, int input);
absl::StatusOr<tensorflow::TensorShape> ShapeOf(
    tensorflow::XlaOpKernelContext* context, const std::string& name);

// That of a value of the program.
absl::StatusOr<tensorflow::TensorShape> ShapeOf(xla::XlaOp value);

// An op's input that is a tensor. XLA may know only how large it can be:
// `count` becomes how many of its elements are there or, where a row isn't
// full, are zeros in place of those; in int64.
absl::Status ReadTensor(tensorflow::XlaOpKernelContext* context, int input,
                        xla::XlaOp* value, xla::XlaOp* count);

// One that should have this shape: then it is cut to that if it can be larger,
// and `fits` becomes a boolean of the program, whether it is as large.
// Otherwise `fits` isn't changed.
absl::Status ReadTensorOfShape(tensorflow::XlaOpKernelContext* context,
                               int input,
                               const tensorflow::TensorShape& expected,
                               xla::XlaOp* value, xla::XlaOp* fits);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_OP_INPUTS_H_
