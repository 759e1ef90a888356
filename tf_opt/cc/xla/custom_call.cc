#include "tf_opt/cc/xla/custom_call.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/lib/strings/proto_serialization.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/statusor.h"
#include "xla/layout_util.h"
#include "xla/shape_util.h"

namespace tf_opt {
namespace {

// A string as MLIR reads it.
std::string Quoted(const std::string& bytes) {
  std::string quoted = "\"";
  for (const char byte : bytes) {
    absl::StrAppend(
        &quoted, "\\",
        absl::Hex(static_cast<unsigned char>(byte), absl::kZeroPad2));
  }
  return absl::StrCat(quoted, "\"");
}

}  // namespace

absl::Status CustomCall::AddArgument(xla::XlaOp value) {
  TF_ASSIGN_OR_RETURN(xla::Shape shape, builder_->GetShape(value));
  // The layout of TensorFlow's tensors.
  xla::LayoutUtil::SetToDefaultLayout(&shape);
  arguments_.push_back(value);
  argument_shapes_.push_back(shape);
  return absl::OkStatus();
}

absl::Status CustomCall::AddUpdated(xla::XlaOp* value) {
  TF_RETURN_IF_ERROR(AddArgument(*value));
  aliases_.push_back(
      {xla::ShapeIndex({static_cast<int64_t>(result_shapes_.size())}),
       {static_cast<int64_t>(arguments_.size()) - 1, xla::ShapeIndex()}});
  AddResult(argument_shapes_.back(), value);
  return absl::OkStatus();
}

void CustomCall::AddResult(const xla::Shape& shape, xla::XlaOp* result) {
  result_shapes_.push_back(shape);
  results_.push_back(result);
}

void CustomCall::Make(const std::string& function,
                      const tensorflow::NodeDef& attributes) {
  // In a fixed order, so that equal programs stay equal.
  std::string serialized;
  tensorflow::SerializeToStringDeterministic(attributes, &serialized);
  const xla::XlaOp results = xla::CustomCallWithLayout(
      builder_, function, arguments_,
      xla::ShapeUtil::MakeTupleShape(result_shapes_), argument_shapes_,
      absl::StrCat("{attributes = ", Quoted(serialized), "}"),
      // The call may fail: XLA must keep it even if no result is used or has
      // elements.
      /*has_side_effect=*/true, aliases_, /*literal=*/nullptr,
      xla::CustomCallSchedule::SCHEDULE_NONE,
      xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
  for (std::size_t i = 0; i < results_.size(); ++i) {
    *results_[i] = xla::GetTupleElement(results, i);
  }
}

tensorflow::NodeDef AttributesOf(const tensorflow::NodeDef& node) {
  tensorflow::NodeDef attributes;
  attributes.set_op(node.op());
  for (const auto& [name, value] : node.attr()) {
    if (name[0] != '_') (*attributes.mutable_attr())[name] = value;
  }
  return attributes;
}

}  // namespace tf_opt
