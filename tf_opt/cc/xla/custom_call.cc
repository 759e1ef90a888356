#include "tf_opt/cc/xla/custom_call.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "xla/layout_util.h"
#include "xla/shape_util.h"

namespace tf_opt {

absl::StatusOr<tensorflow::TensorShape> ShapeOf(
    tensorflow::XlaOpKernelContext* context, int input) {
  absl::StatusOr<xla::Shape> shape = context->InputXlaShape(input);
  if (!shape.ok()) return shape.status();
  tensorflow::TensorShape found;
  absl::Status status = tensorflow::XLAShapeToTensorShape(*shape, &found);
  if (!status.ok()) return status;
  return found;
}

absl::Status AttributesOf(tensorflow::OpKernelConstruction* context,
                          std::string* attributes) {
  const tensorflow::OpDef* op;
  absl::Status status =
      tensorflow::OpRegistry::Global()->LookUpOpDef(context->def().op(), &op);
  if (!status.ok()) return status;
  std::vector<std::string> all;
  for (const auto& attribute : op->attr()) {
    int64_t number = 0;
    if (attribute.type() == "int") {
      status = context->GetAttr(attribute.name(), &number);
    } else if (attribute.type() == "bool") {
      bool flag = false;
      status = context->GetAttr(attribute.name(), &flag);
      number = flag;
    } else {
      continue;
    }
    if (!status.ok()) return status;
    all.push_back(absl::StrCat(attribute.name(), " = ", number, " : i64"));
  }
  *attributes = absl::StrJoin(all, ", ");
  return absl::OkStatus();
}

absl::Status CustomCall::AddArgument(xla::XlaOp value) {
  absl::StatusOr<xla::Shape> shape = builder_->GetShape(value);
  if (!shape.ok()) return shape.status();
  // As it lies in TensorFlow's memory.
  xla::LayoutUtil::SetToDefaultLayout(&*shape);
  arguments_.push_back(value);
  argument_shapes_.push_back(*shape);
  return absl::OkStatus();
}

absl::Status CustomCall::AddUpdated(xla::XlaOp* value) {
  absl::Status status = AddArgument(*value);
  if (!status.ok()) return status;
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
                      const std::string& attributes) {
  const xla::XlaOp results = xla::CustomCallWithLayout(
      builder_, function, arguments_,
      xla::ShapeUtil::MakeTupleShape(result_shapes_), argument_shapes_,
      absl::StrCat("{", attributes, "}"), /*has_side_effect=*/false, aliases_,
      /*literal=*/nullptr, xla::CustomCallSchedule::SCHEDULE_NONE,
      xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
  for (std::size_t i = 0; i < results_.size(); ++i) {
    *results_[i] = xla::GetTupleElement(results, i);
  }
}

}  // namespace tf_opt
