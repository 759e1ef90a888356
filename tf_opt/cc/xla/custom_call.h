// A call into this library from a program that XLA compiles for the CPU.
#ifndef TF_OPT_CC_XLA_CUSTOM_CALL_H_
#define TF_OPT_CC_XLA_CUSTOM_CALL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape.h"

namespace tf_opt {

class CustomCall {
 public:
  explicit CustomCall(xla::XlaBuilder* builder) : builder_(builder) {}

  absl::Status AddArgument(xla::XlaOp value);

  // Adds an argument that is updated in place: `value` becomes the result.
  absl::Status AddUpdated(xla::XlaOp* value);

  // Adds a result of this shape that is no argument.
  void AddResult(const xla::Shape& shape, xla::XlaOp* result);

  // Puts the call of `function` into the program. The function reads the
  // attributes of an op's node, and those that its kernel added.
  void Make(const std::string& function, const tensorflow::NodeDef& attributes);

 private:
  xla::XlaBuilder* builder_;
  std::vector<xla::XlaOp> arguments_;
  std::vector<xla::Shape> argument_shapes_;
  std::vector<xla::Shape> result_shapes_;
  std::vector<xla::XlaOp*> results_;
  // Without these XLA would copy the arrays before they are updated.
  std::vector<std::pair<xla::ShapeIndex, std::pair<int64_t, xla::ShapeIndex>>>
      aliases_;
};

// Device of the kernels that write calls. They are not registered with
// REGISTER_XLA_OP: XLA would not see the kernels of a library that is loaded
// after the process's first compilation.
constexpr char kXlaDevice[] = "XLA_CPU_JIT";

// An op and its attributes, without those that TensorFlow adds for itself.
tensorflow::NodeDef AttributesOf(const tensorflow::NodeDef& node);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_CUSTOM_CALL_H_
