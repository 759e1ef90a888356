#include "tf_opt/cc/xla/op_inputs.h"

#include <cstdint>

#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/statusor.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/shape.h"
#include "xla/xla_data.pb.h"

namespace tf_opt {
namespace {

absl::StatusOr<tensorflow::TensorShape> ToTensorShape(
    const absl::StatusOr<xla::Shape>& shape) {
  if (!shape.ok()) return shape.status();
  tensorflow::TensorShape found;
  TF_RETURN_IF_ERROR(tensorflow::XLAShapeToTensorShape(*shape, &found));
  return found;
}

// The size of a dimension, in int64: XLA gives it in int32, to which one that
// is known must not be rounded.
xla::XlaOp SizeOf(xla::XlaOp value, int64_t dimension) {
  return xla::ConvertElementType(xla::GetDimensionSize(value, dimension),
                                 xla::S64);
}

}  // namespace

absl::StatusOr<InputList> ListOf(tensorflow::XlaOpKernelContext* context,
                                 const std::string& name) {
  int begin, end;
  TF_RETURN_IF_ERROR(
      context->op_kernel_context()->op_kernel().InputRange(name, &begin, &end));
  return InputList{begin, end - begin};
}

absl::StatusOr<tensorflow::TensorShape> ShapeOf(
    tensorflow::XlaOpKernelContext* context, int input) {
  return ToTensorShape(context->InputXlaShape(input));
}

absl::StatusOr<tensorflow::TensorShape> ShapeOf(
    tensorflow::XlaOpKernelContext* context, const std::string& name) {
  TF_ASSIGN_OR_RETURN(const InputList input, ListOf(context, name));
  return ShapeOf(context, input.begin);
}

absl::Status ReadTensor(tensorflow::XlaOpKernelContext* context, int input,
                        xla::XlaOp* value, xla::XlaOp* count) {
  TF_ASSIGN_OR_RETURN(const xla::Shape shape, context->InputXlaShape(input));
  *value = context->Input(input);
  xla::XlaBuilder* const builder = context->builder();
  const auto number = [builder](int64_t x) {
    return xla::ConstantR0<int64_t>(builder, x);
  };
  *count = number(1);
  xla::XlaOp is_empty = xla::ConstantR0<bool>(builder, false);
  for (int k = 0; k < static_cast<int>(shape.dimensions().size()); ++k) {
    const int64_t room = shape.dimensions(k);
    if (!shape.is_dynamic_dimension(k)) {
      *count = xla::Mul(*count, number(room));
      continue;
    }
    const xla::XlaOp size = SizeOf(*value, k);
    *value = xla::RemoveDynamicDimension(*value, k);
    if (k == 0) {
      *count = size;
      continue;
    }
    *count = xla::Mul(*count, number(room));
    is_empty = xla::Or(is_empty, xla::Eq(size, number(0)));
    const xla::XlaOp is_there =
        xla::Lt(xla::Iota(builder, xla::S64, room), size);
    *value = xla::Select(xla::BroadcastInDim(is_there, shape.dimensions(), {k}),
                         *value, xla::ZerosLike(*value));
  }
  *count = xla::Select(is_empty, number(0), *count);
  return absl::OkStatus();
}

absl::Status ReadTensorOfShape(tensorflow::XlaOpKernelContext* context,
                               int input,
                               const tensorflow::TensorShape& expected,
                               xla::XlaOp* value, xla::XlaOp* fits) {
  TF_ASSIGN_OR_RETURN(const xla::Shape shape, context->InputXlaShape(input));
  *value = context->Input(input);
  const int rank = static_cast<int>(shape.dimensions().size());
  if (shape.is_static() || rank != expected.dims()) return absl::OkStatus();
  *fits = xla::ConstantR0<bool>(context->builder(), true);
  for (int k = 0; k < rank; ++k) {
    if (!shape.is_dynamic_dimension(k)) continue;
    const int64_t wanted = expected.dim_size(k);
    *fits = xla::And(
        *fits, xla::Eq(SizeOf(*value, k),
                       xla::ConstantR0<int64_t>(context->builder(), wanted)));
    *value = xla::RemoveDynamicDimension(*value, k);
    if (shape.dimensions(k) > wanted) {
      *value = xla::SliceInDim(*value, 0, wanted, 1, k);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<tensorflow::TensorShape> ShapeOf(xla::XlaOp value) {
  return ToTensorShape(value.builder()->GetShape(value));
}

}  // namespace tf_opt
