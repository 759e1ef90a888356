#include "tf_opt/cc/xla/custom_call.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/statusor.h"
#include "xla/layout_util.h"
#include "xla/shape_util.h"

namespace tf_opt {
namespace {

// As MLIR reads them.
std::string Quoted(const std::vector<std::string>& strings) {
  std::string quoted = "\"";
  for (const std::string& string : strings) {
    for (const char c : string) {
      absl::ascii_isalnum(c)
          ? absl::StrAppend(&quoted, std::string(1, c))
          : absl::StrAppend(
                &quoted, "\\",
                absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
    absl::StrAppend(&quoted, "\\00");
  }
  return absl::StrCat(quoted, "\"");
}

}  // namespace

std::string ArrayOf(const std::vector<int64_t>& numbers) {
  return absl::StrCat("array<i64", numbers.empty() ? "" : ": ",
                      absl::StrJoin(numbers, ", "), ">");
}

namespace {

// The value of an op's attribute as that of a call; empty if calls don't have
// attributes of its type.
absl::StatusOr<std::string> ValueOf(
    tensorflow::OpKernelConstruction* context,
    const tensorflow::OpDef::AttrDef& attribute) {
  const auto value_as = [&](auto value, const auto& print) {
    absl::Status status = context->GetAttr(attribute.name(), &value);
    return status.ok() ? absl::StatusOr<std::string>(print(value)) : status;
  };
  const auto print_number = [](int64_t number) {
    return absl::StrCat(number, " : i64");
  };
  if (attribute.type() == "int") return value_as(int64_t{}, print_number);
  if (attribute.type() == "bool") return value_as(bool{}, print_number);
  if (attribute.type() == "list(int)") {
    return value_as(std::vector<int64_t>(), ArrayOf);
  }
  if (attribute.type() == "list(string)") {
    return value_as(std::vector<std::string>(), Quoted);
  }
  return std::string();
}

}  // namespace

absl::Status AttributesOf(tensorflow::OpKernelConstruction* context,
                          std::string* attributes) {
  const tensorflow::OpDef* op;
  TF_RETURN_IF_ERROR(
      tensorflow::OpRegistry::Global()->LookUpOpDef(context->def().op(), &op));
  std::vector<std::string> all;
  for (const auto& attribute : op->attr()) {
    TF_ASSIGN_OR_RETURN(const std::string value, ValueOf(context, attribute));
    if (value.empty()) continue;
    all.push_back(absl::StrCat(attribute.name(), " = ", value));
  }
  *attributes = absl::StrJoin(all, ", ");
  return absl::OkStatus();
}

absl::Status CustomCall::AddArgument(xla::XlaOp value) {
  TF_ASSIGN_OR_RETURN(xla::Shape shape, builder_->GetShape(value));
  // As it lies in TensorFlow's memory.
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
                      const std::string& attributes) {
  const xla::XlaOp results = xla::CustomCallWithLayout(
      builder_, function, arguments_,
      xla::ShapeUtil::MakeTupleShape(result_shapes_), argument_shapes_,
      // Its error is one: XLA may not leave it out, also where no result of it
      // is used or has elements.
      absl::StrCat("{", attributes, "}"), /*has_side_effect=*/true, aliases_,
      /*literal=*/nullptr, xla::CustomCallSchedule::SCHEDULE_NONE,
      xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
  for (std::size_t i = 0; i < results_.size(); ++i) {
    *results_[i] = xla::GetTupleElement(results, i);
  }
}

}  // namespace tf_opt
