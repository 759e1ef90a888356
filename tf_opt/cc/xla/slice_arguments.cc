#include "tf_opt/cc/xla/slice_arguments.h"

#include <cstdint>

#include "absl/status/statusor.h"
#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "xla/hlo/builder/xla_builder.h"
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
    values_shape->set_dim(0, indices_shape->dim_size(0));
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

// Adds the arrays of a list, and to `counts` how many rows each has.
absl::Status AddArrays(XlaOpKernelContext* context, const InputList& list,
                       CustomCall* call, std::vector<xla::XlaOp>* counts) {
  for (int i = 0; i < list.count; ++i) {
    xla::XlaOp value = context->Input(list.begin + i);
    const absl::StatusOr<xla::Shape> shape =
        context->InputXlaShape(list.begin + i);
    if (!shape.ok()) return shape.status();
    xla::XlaOp count;
    if (shape->is_dynamic_dimension(0)) {
      count =
          xla::ConvertElementType(xla::GetDimensionSize(value, 0), xla::S64);
      value = xla::RemoveDynamicDimension(value, 0);
    } else {
      count =
          xla::ConstantR0<int64_t>(context->builder(), shape->dimensions(0));
    }
    counts->push_back(xla::Reshape(count, {1}));
    absl::Status status = call->AddArgument(value);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AddSlices(XlaOpKernelContext* context,
                       const SliceAttributes& attributes,
                       const std::vector<TensorShape>& tables,
                       CustomCall* call) {
  const absl::StatusOr<InputList> values = ListOf(context, "gradients");
  if (!values.ok()) return values.status();
  const absl::StatusOr<InputList> indices = ListOf(context, "indices");
  if (!indices.ok()) return indices.status();
  const absl::StatusOr<InputList> accumulated =
      ListOf(context, "accumulated_rows");
  if (!accumulated.ok()) return accumulated.status();
  absl::Status status =
      CheckShapes(context, attributes, tables, *values, *indices, *accumulated);
  if (!status.ok()) return status;
  std::vector<xla::XlaOp> counts;
  for (const InputList& list : {*values, *indices, *accumulated}) {
    status = AddArrays(context, list, call, &counts);
    if (!status.ok()) return status;
  }
  return call->AddArgument(xla::ConcatInDim(context->builder(), counts, 0));
}

}  // namespace tf_opt
