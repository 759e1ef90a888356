// A call of a function of ours in a program that XLA compiles for the CPU.
#ifndef TF_OPT_CC_XLA_CUSTOM_CALL_H_
#define TF_OPT_CC_XLA_CUSTOM_CALL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape.h"

namespace tf_opt {

// An op's attributes that are integers, booleans or lists of integers or
// strings, as attributes of a call:
// R"(N = 1 : i64, lazy = 0 : i64, rows = array<i64: 9>, tables = "users\00")".
// A string ends with a zero, as there are no lists of them.
absl::Status AttributesOf(tensorflow::OpKernelConstruction* context,
                          std::string* attributes);

// Such numbers as the value of an attribute of a call.
std::string ArrayOf(const std::vector<int64_t>& numbers);

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
