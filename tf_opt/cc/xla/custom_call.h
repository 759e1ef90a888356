// A call of a function of ours in a program that XLA compiles for the CPU.
#ifndef TF_OPT_CC_XLA_CUSTOM_CALL_H_
#define TF_OPT_CC_XLA_CUSTOM_CALL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape.h"

namespace tf_opt {

// The device for which XLA compiles on a CPU.
constexpr char kXlaCpuDevice[] = "XLA_CPU_JIT";

// What our ops have kernels for.
constexpr tensorflow::DataType kElementTypes[] = {
    tensorflow::DT_HALF, tensorflow::DT_BFLOAT16, tensorflow::DT_FLOAT,
    tensorflow::DT_DOUBLE};

// The shape of an op's input.
absl::StatusOr<tensorflow::TensorShape> ShapeOf(
    tensorflow::XlaOpKernelContext* context, int input);

// An op's attributes that are integers or booleans, as attributes of a call:
// "N = 3 : i64, lazy = 0 : i64".
absl::Status AttributesOf(tensorflow::OpKernelConstruction* context,
                          std::string* attributes);

class CustomCall {
 public:
  explicit CustomCall(xla::XlaBuilder* builder) : builder_(builder) {}

  // An argument.
  absl::Status AddArgument(xla::XlaOp value);

  // One that is updated in place: `value` becomes the result.
  absl::Status AddUpdated(xla::XlaOp* value);

  // A result of this shape that is no argument.
  void AddResult(const xla::Shape& shape, xla::XlaOp* result);

  // Puts the call of `function` into the program.
  void Make(const std::string& function, const std::string& attributes);

 private:
  xla::XlaBuilder* builder_;
  std::vector<xla::XlaOp> arguments_;
  std::vector<xla::Shape> argument_shapes_;
  std::vector<xla::Shape> result_shapes_;
  std::vector<xla::XlaOp*> results_;
  // Without these XLA would copy what is updated.
  std::vector<std::pair<xla::ShapeIndex, std::pair<int64_t, xla::ShapeIndex>>>
      aliases_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_CUSTOM_CALL_H_
