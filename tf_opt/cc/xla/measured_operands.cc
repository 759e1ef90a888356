#include "tf_opt/cc/xla/measured_operands.h"

#include <map>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/statusor.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/xla/op_inputs.h"

namespace tf_opt {

absl::Status ReadGradients(tensorflow::XlaOpKernelContext* context,
                           std::vector<xla::XlaOp>* gradients,
                           std::vector<xla::XlaOp>* counts,
                           std::vector<tensorflow::TensorShape>* shapes) {
  TF_ASSIGN_OR_RETURN(const InputList list, ListOf(context, "gradients"));
  TF_ASSIGN_OR_RETURN(const InputList accumulators,
                      ListOf(context, "accumulators"));
  for (int i = 0; i < list.count; ++i) {
    xla::XlaOp gradient, gradient_count;
    if (accumulators.count == list.count) {
      tensorflow::DataType type;
      tensorflow::TensorShape expected;
      TF_RETURN_IF_ERROR(context->GetVariableTypeAndShape(
          accumulators.begin + i, &type, &expected));
      xla::XlaOp fits;
      TF_RETURN_IF_ERROR(ReadTensorOfShape(context, list.begin + i, expected,
                                           &gradient, &fits));
      gradient_count =
          xla::ConstantR0<int64_t>(context->builder(), expected.num_elements());
    } else {
      TF_RETURN_IF_ERROR(
          ReadTensor(context, list.begin + i, &gradient, &gradient_count));
    }
    TF_ASSIGN_OR_RETURN(const tensorflow::TensorShape shape, ShapeOf(gradient));
    gradients->push_back(gradient);
    counts->push_back(gradient_count);
    shapes->push_back(shape);
  }
  return absl::OkStatus();
}

absl::Status ReadTableRows(tensorflow::XlaOpKernelContext* context, int count,
                           std::vector<int64_t>* rows) {
  TF_RETURN_IF_ERROR(context->ConstantInputAsIntVector("rows", rows));
  return CheckTableRows(count, *rows);
}

absl::Status ReadTableShapes(tensorflow::XlaOpKernelContext* context,
                             const std::vector<int64_t>& rows,
                             std::vector<tensorflow::TensorShape>* shapes) {
  TF_ASSIGN_OR_RETURN(const InputList list, ListOf(context, "gradients"));
  for (int i = 0; i < list.count; ++i) {
    absl::StatusOr<tensorflow::TensorShape> shape =
        ShapeOf(context, list.begin + i);
    if (shape.ok()) shape = TableShape(rows[i], *shape);
    if (!shape.ok()) return shape.status();
    shapes->push_back(*shape);
  }
  return absl::OkStatus();
}

absl::Status ReadAccumulators(
    tensorflow::XlaOpKernelContext* context, tensorflow::DataType dtype,
    const std::vector<tensorflow::TensorShape>& shapes,
    const std::string& whose, std::vector<xla::XlaOp>* accumulators) {
  TF_ASSIGN_OR_RETURN(const InputList list, ListOf(context, "accumulators"));
  const int count = static_cast<int>(shapes.size());
  if (list.count != 0 && list.count != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`accumulators` must be empty or have one variable for each of the ",
        count, " `gradients`, got ", list.count));
  }
  std::map<const void*, int> variables;
  for (int i = 0; i < list.count; ++i) {
    tensorflow::XlaResource* resource;
    TF_RETURN_IF_ERROR(context->GetResourceInput(list.begin + i, &resource));
    const auto [same, is_new] = variables.emplace(resource, i);
    if (!is_new) {
      return SameVariable(absl::StrCat("accumulators[", same->second, "]"),
                          absl::StrCat("accumulators[", i, "]"));
    }
    tensorflow::TensorShape shape;
    xla::XlaOp value;
    TF_RETURN_IF_ERROR(context->ReadVariableInput(
        list.begin + i, ArithmeticType(dtype), &shape, &value));
    TF_RETURN_IF_ERROR(CheckShape("accumulators", i, shapes[i], whose, shape));
    accumulators->push_back(value);
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
