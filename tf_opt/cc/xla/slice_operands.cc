#include "tf_opt/cc/xla/slice_operands.h"

#include "absl/status/statusor.h"
#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/xla/op_inputs.h"
#include "xla/shape.h"

namespace tf_opt {
namespace {

using ::tensorflow::TensorShape;
using ::tensorflow::XlaOpKernelContext;

// The shapes of slices' values and indices; where not known is how many rows
// these have, the same number of both.
absl::Status ShapesOf(XlaOpKernelContext* context, int values, int indices,
                      TensorShape* values_shape, TensorShape* indices_shape) {
  const absl::StatusOr<xla::Shape> shapes[] = {context->InputXlaShape(values),
                                               context->InputXlaShape(indices)};
  bool is_known = true;
  for (const absl::StatusOr<xla::Shape>& shape : shapes) {
    if (!shape.ok()) return shape.status();
    is_known = is_known && shape->is_static();
    for (int k = 1; k < static_cast<int>(shape->dimensions().size()); ++k) {
      if (!shape->is_dynamic_dimension(k)) continue;
      return absl::InvalidArgumentError(
          "a sparse gradient must have rows whose size is known inside XLA");
    }
  }
  absl::Status status =
      tensorflow::XLAShapeToTensorShape(*shapes[0], values_shape);
  if (!status.ok()) return status;
  status = tensorflow::XLAShapeToTensorShape(*shapes[1], indices_shape);
  if (!status.ok()) return status;
  if (!is_known && values_shape->dims() > 0 && indices_shape->dims() > 0) {
    return values_shape->SetDimWithStatus(0, indices_shape->dim_size(0));
  }
  return absl::OkStatus();
}

absl::Status CheckShapes(XlaOpKernelContext* context,
                         const SliceAttributes& attributes,
                         const std::vector<TensorShape>& tables,
                         const InputList& values, const InputList& indices,
                         const InputList& accumulated) {
  absl::Status status = CheckAccumulatedRows(values.count, accumulated.count);
  for (int i = 0; status.ok() && i < values.count; ++i) {
    TensorShape values_shape, indices_shape;
    status = ShapesOf(context, values.begin + i, indices.begin + i,
                      &values_shape, &indices_shape);
    if (!status.ok()) return status;
    absl::StatusOr<TensorShape> accumulated_shape = TensorShape();
    if (accumulated.count > 0) {
      accumulated_shape = ShapeOf(context, accumulated.begin + i);
      if (!accumulated_shape.ok()) return accumulated_shape.status();
    }
    status = CheckSliceShapes(
        i, attributes.Name(i), tables[i], values_shape, indices_shape,
        accumulated.count > 0 ? &*accumulated_shape : nullptr);
  }
  return status;
}

absl::Status ReadArrays(XlaOpKernelContext* context, const InputList& list,
                        std::vector<SliceArray>* arrays) {
  for (int i = list.begin; i < list.begin + list.count; ++i) {
    const absl::StatusOr<xla::Shape> shape = context->InputXlaShape(i);
    if (!shape.ok()) return shape.status();
    SliceArray array;
    array.value = context->Input(i);
    array.room = shape->dimensions(0);
    if (shape->is_dynamic_dimension(0)) {
      array.count = xla::ConvertElementType(
          xla::GetDimensionSize(array.value, 0), xla::S64);
      array.value = xla::RemoveDynamicDimension(array.value, 0);
    } else {
      array.count = xla::ConstantR0<int64_t>(context->builder(), array.room);
    }
    arrays->push_back(array);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SliceOperands::Read(XlaOpKernelContext* context,
                                 const SliceAttributes& attributes,
                                 const std::vector<TensorShape>& tables) {
  const absl::StatusOr<InputList> value_list = ListOf(context, "gradients");
  if (!value_list.ok()) return value_list.status();
  const absl::StatusOr<InputList> index_list = ListOf(context, "indices");
  if (!index_list.ok()) return index_list.status();
  const absl::StatusOr<InputList> accumulated =
      ListOf(context, "accumulated_rows");
  if (!accumulated.ok()) return accumulated.status();
  absl::Status status = CheckShapes(context, attributes, tables, *value_list,
                                    *index_list, *accumulated);
  if (status.ok()) status = ReadArrays(context, *value_list, &values);
  if (status.ok()) status = ReadArrays(context, *index_list, &indices);
  if (status.ok()) {
    status = ReadArrays(context, *accumulated, &accumulated_rows);
  }
  return status;
}

}  // namespace tf_opt
