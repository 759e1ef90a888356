#include "tf_opt/cc/xla/op_inputs.h"

#include <cstdint>

#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "xla/shape.h"

namespace tf_opt {

absl::StatusOr<InputList> ListOf(tensorflow::XlaOpKernelContext* context,
                                 const std::string& name) {
  int begin, end;
  absl::Status status =
      context->op_kernel_context()->op_kernel().InputRange(name, &begin, &end);
  if (!status.ok()) return status;
  return InputList{begin, end - begin};
}

absl::StatusOr<tensorflow::TensorShape> ShapeOf(
    tensorflow::XlaOpKernelContext* context, int input) {
  absl::StatusOr<xla::Shape> shape = context->InputXlaShape(input);
  if (!shape.ok()) return shape.status();
  tensorflow::TensorShape found;
  absl::Status status = tensorflow::XLAShapeToTensorShape(*shape, &found);
  if (!status.ok()) return status;
  return found;
}

absl::StatusOr<tensorflow::TensorShape> ShapeOf(
    tensorflow::XlaOpKernelContext* context, const std::string& name) {
  const absl::StatusOr<InputList> input = ListOf(context, name);
  if (!input.ok()) return input.status();
  return ShapeOf(context, input->begin);
}

absl::Status ReadTensor(tensorflow::XlaOpKernelContext* context, int input,
                        xla::XlaOp* value, xla::XlaOp* fits) {
  const absl::StatusOr<xla::Shape> shape = context->InputXlaShape(input);
  if (!shape.ok()) return shape.status();
  *value = context->Input(input);
  if (shape->is_static()) return absl::OkStatus();
  *fits = xla::ConstantR0<bool>(context->builder(), true);
  for (int k = 0; k < static_cast<int>(shape->dimensions().size()); ++k) {
    if (!shape->is_dynamic_dimension(k)) continue;
    const xla::XlaOp size = xla::GetDimensionSize(*value, k);
    const xla::XlaOp room = xla::ConstantR0<int32_t>(
        context->builder(), static_cast<int32_t>(shape->dimensions(k)));
    *fits = xla::And(*fits, xla::Eq(size, room));
    *value = xla::RemoveDynamicDimension(*value, k);
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
