#include "tf_opt/cc/xla/op_inputs.h"

#include <cstdint>

#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/statusor.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/shape.h"
#include "xla/xla_data.pb.h"

namespace tf_opt {
namespace {

using ::tensorflow::PartialTensorShape;
using ::tensorflow::TensorShape;
using ::tensorflow::XlaOpKernelContext;

absl::StatusOr<TensorShape> ToTensorShape(
    const absl::StatusOr<xla::Shape>& shape) {
  if (!shape.ok()) return shape.status();
  TensorShape found;
  TF_RETURN_IF_ERROR(tensorflow::XLAShapeToTensorShape(*shape, &found));
  return found;
}

// The size of a dimension, in int64: XLA gives it in int32, to which one that
// is known must not be rounded.
xla::XlaOp SizeOf(xla::XlaOp value, int64_t dimension) {
  return xla::ConvertElementType(xla::GetDimensionSize(value, dimension),
                                 xla::S64);
}

// Returns the shape of an input. A size that only the program knows is unknown.
absl::StatusOr<PartialTensorShape> PartialShapeOf(XlaOpKernelContext* context,
                                                  int input) {
  TF_ASSIGN_OR_RETURN(const xla::Shape shape, context->InputXlaShape(input));
  std::vector<int64_t> sizes;
  for (int k = 0; k < static_cast<int>(shape.dimensions().size()); ++k) {
    sizes.push_back(shape.is_dynamic_dimension(k) ? -1 : shape.dimensions(k));
  }
  PartialTensorShape found;
  TF_RETURN_IF_ERROR(
      PartialTensorShape::BuildPartialTensorShape(sizes, &found));
  return found;
}

// Checks the i-th slices against the shape of their table.
absl::Status CheckSlices(XlaOpKernelContext* context, int i,
                         const std::string& name, const TensorShape& table,
                         int values, int indices) {
  TF_ASSIGN_OR_RETURN(const PartialTensorShape shape,
                      PartialShapeOf(context, values));
  TF_ASSIGN_OR_RETURN(const PartialTensorShape of_indices,
                      PartialShapeOf(context, indices));
  for (int k = 1; k < shape.dims(); ++k) {
    if (shape.dim_size(k) >= 0) continue;
    return absl::InvalidArgumentError(
        "a sparse gradient must have rows whose size is known inside XLA");
  }
  return CheckSliceShapes(i, name, table, shape, of_indices);
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
      count = SizeOf(value, 0);
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

absl::StatusOr<InputList> ListOf(XlaOpKernelContext* context,
                                 const std::string& name) {
  int begin, end;
  TF_RETURN_IF_ERROR(
      context->op_kernel_context()->op_kernel().InputRange(name, &begin, &end));
  return InputList{begin, end - begin};
}

absl::StatusOr<TensorShape> ShapeOf(XlaOpKernelContext* context, int input) {
  return ToTensorShape(context->InputXlaShape(input));
}

absl::StatusOr<TensorShape> ShapeOf(XlaOpKernelContext* context,
                                    const std::string& name) {
  TF_ASSIGN_OR_RETURN(const InputList input, ListOf(context, name));
  return ShapeOf(context, input.begin);
}

absl::Status ReadTensor(XlaOpKernelContext* context, int input,
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

absl::Status ReadTensorOfShape(XlaOpKernelContext* context, int input,
                               const TensorShape& expected, xla::XlaOp* value,
                               xla::XlaOp* fits) {
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

absl::StatusOr<TensorShape> ShapeOf(xla::XlaOp value) {
  return ToTensorShape(value.builder()->GetShape(value));
}

absl::Status AddSlices(XlaOpKernelContext* context,
                       const SliceAttributes& attributes,
                       const std::vector<TensorShape>& tables,
                       CustomCall* call) {
  TF_ASSIGN_OR_RETURN(const InputList values, ListOf(context, "gradients"));
  TF_ASSIGN_OR_RETURN(const InputList indices, ListOf(context, "indices"));
  TF_ASSIGN_OR_RETURN(const InputList accumulated,
                      ListOf(context, "accumulated_rows"));
  TF_RETURN_IF_ERROR(CheckLength("accumulated_rows", "vector",
                                 /*optional=*/true, values.count,
                                 accumulated.count));
  for (int i = 0; i < values.count; ++i) {
    TF_RETURN_IF_ERROR(CheckSlices(context, i, attributes.Name(i), tables[i],
                                   values.begin + i, indices.begin + i));
  }
  for (int i = 0; i < accumulated.count; ++i) {
    TF_ASSIGN_OR_RETURN(const TensorShape shape,
                        ShapeOf(context, accumulated.begin + i));
    TF_RETURN_IF_ERROR(
        CheckIsVector("accumulated_rows", i, attributes.Name(i), shape));
  }
  std::vector<xla::XlaOp> counts;
  for (const InputList& list : {values, indices, accumulated}) {
    TF_RETURN_IF_ERROR(AddArrays(context, list, call, &counts));
  }
  return call->AddArgument(
      xla::ConcatInDim(context->builder(), counts, /*dimension=*/0));
}

}  // namespace tf_opt
