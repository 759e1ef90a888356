#include "tf_opt/cc/xla/slice_operands.h"

#include "absl/status/statusor.h"
#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/statusor.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/xla/op_inputs.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape.h"

namespace tf_opt {
namespace {

using ::tensorflow::TensorShape;
using ::tensorflow::XlaOpKernelContext;

// Finds the shapes of slices' values and indices. If the number of rows is not
// known, both get the same one.
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
  TF_RETURN_IF_ERROR(
      tensorflow::XLAShapeToTensorShape(*shapes[0], values_shape));
  TF_RETURN_IF_ERROR(
      tensorflow::XLAShapeToTensorShape(*shapes[1], indices_shape));
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
  TF_RETURN_IF_ERROR(CheckAccumulatedRows(values.count, accumulated.count));
  for (int i = 0; i < values.count; ++i) {
    TensorShape values_shape, indices_shape;
    TF_RETURN_IF_ERROR(ShapesOf(context, values.begin + i, indices.begin + i,
                                &values_shape, &indices_shape));
    absl::StatusOr<TensorShape> accumulated_shape = TensorShape();
    if (accumulated.count > 0) {
      accumulated_shape = ShapeOf(context, accumulated.begin + i);
      if (!accumulated_shape.ok()) return accumulated_shape.status();
    }
    TF_RETURN_IF_ERROR(CheckSliceShapes(
        i, attributes.Name(i), tables[i], values_shape, indices_shape,
        accumulated.count > 0 ? &*accumulated_shape : nullptr));
  }
  return absl::OkStatus();
}

// Adds the arrays of a list to a call. Only the program may know how many rows
// they have: then an array has the rows that XLA made room for. `counts` become
// the rows that count, in int64.
absl::Status AddArrays(XlaOpKernelContext* context, const InputList& list,
                       CustomCall* call, std::vector<xla::XlaOp>* counts) {
  for (int i = list.begin; i < list.begin + list.count; ++i) {
    TF_ASSIGN_OR_RETURN(const xla::Shape shape, context->InputXlaShape(i));
    xla::XlaOp value = context->Input(i);
    xla::XlaOp count;
    if (shape.is_dynamic_dimension(0)) {
      count =
          xla::ConvertElementType(xla::GetDimensionSize(value, 0), xla::S64);
      value = xla::RemoveDynamicDimension(value, 0);
    } else {
      count = xla::ConstantR0<int64_t>(context->builder(), shape.dimensions(0));
    }
    counts->push_back(xla::Reshape(count, {1}));
    TF_RETURN_IF_ERROR(call->AddArgument(value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AddSlices(XlaOpKernelContext* context,
                       const SliceAttributes& attributes,
                       const std::vector<TensorShape>& tables,
                       CustomCall* call) {
  TF_ASSIGN_OR_RETURN(const InputList values, ListOf(context, "gradients"));
  TF_ASSIGN_OR_RETURN(const InputList indices, ListOf(context, "indices"));
  TF_ASSIGN_OR_RETURN(const InputList accumulated,
                      ListOf(context, "accumulated_rows"));
  TF_RETURN_IF_ERROR(
      CheckShapes(context, attributes, tables, values, indices, accumulated));
  std::vector<xla::XlaOp> counts;
  for (const InputList& list : {values, indices, accumulated}) {
    TF_RETURN_IF_ERROR(AddArrays(context, list, call, &counts));
  }
  return call->AddArgument(
      xla::ConcatInDim(context->builder(), counts, /*dimension=*/0));
}

}  // namespace tf_opt
