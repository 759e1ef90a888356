#include "tf_opt/cc/xla/measured_operands.h"

#include <map>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/xla/op_inputs.h"

namespace tf_opt {

absl::Status ReadGradients(tensorflow::XlaOpKernelContext* context,
                           std::vector<xla::XlaOp>* gradients,
                           std::vector<xla::XlaOp>* counts,
                           std::vector<tensorflow::TensorShape>* shapes) {
  const absl::StatusOr<InputList> list = ListOf(context, "gradients");
  if (!list.ok()) return list.status();
  const absl::StatusOr<InputList> accumulators =
      ListOf(context, "accumulators");
  if (!accumulators.ok()) return accumulators.status();
  for (int i = 0; i < list->count; ++i) {
    xla::XlaOp gradient, gradient_count;
    absl::Status status;
    if (accumulators->count == list->count) {
      tensorflow::DataType type;
      tensorflow::TensorShape expected;
      status = context->GetVariableTypeAndShape(accumulators->begin + i, &type,
                                                &expected);
      if (!status.ok()) return status;
      xla::XlaOp fits;
      status = ReadTensorOfShape(context, list->begin + i, expected, &gradient,
                                 &fits);
      gradient_count =
          xla::ConstantR0<int64_t>(context->builder(), expected.num_elements());
    } else {
      status = ReadTensor(context, list->begin + i, &gradient, &gradient_count);
    }
    if (!status.ok()) return status;
    const absl::StatusOr<tensorflow::TensorShape> shape = ShapeOf(gradient);
    if (!shape.ok()) return shape.status();
    gradients->push_back(gradient);
    counts->push_back(gradient_count);
    shapes->push_back(*shape);
  }
  return absl::OkStatus();
}

absl::Status ReadTableRows(tensorflow::XlaOpKernelContext* context, int count,
                           std::vector<int64_t>* rows) {
  absl::Status status = context->ConstantInputAsIntVector("rows", rows);
  return status.ok() ? CheckTableRows(count, *rows) : status;
}

absl::Status ReadTableShapes(tensorflow::XlaOpKernelContext* context,
                             const std::vector<int64_t>& rows,
                             std::vector<tensorflow::TensorShape>* shapes) {
  const absl::StatusOr<InputList> list = ListOf(context, "gradients");
  if (!list.ok()) return list.status();
  for (int i = 0; i < list->count; ++i) {
    absl::StatusOr<tensorflow::TensorShape> shape =
        ShapeOf(context, list->begin + i);
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
  const absl::StatusOr<InputList> list = ListOf(context, "accumulators");
  if (!list.ok()) return list.status();
  const int count = static_cast<int>(shapes.size());
  if (list->count != 0 && list->count != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`accumulators` must be empty or have one variable for each of the ",
        count, " `gradients`, got ", list->count));
  }
  std::map<const void*, int> variables;
  for (int i = 0; i < list->count; ++i) {
    tensorflow::XlaResource* resource;
    absl::Status status = context->GetResourceInput(list->begin + i, &resource);
    if (!status.ok()) return status;
    const auto [same, is_new] = variables.emplace(resource, i);
    if (!is_new) {
      return SameVariable(absl::StrCat("accumulators[", same->second, "]"),
                          absl::StrCat("accumulators[", i, "]"));
    }
    tensorflow::TensorShape shape;
    xla::XlaOp value;
    status = context->ReadVariableInput(list->begin + i, ArithmeticType(dtype),
                                        &shape, &value);
    if (!status.ok()) return status;
    status = CheckShape("accumulators", i, shapes[i], whose, shape);
    if (!status.ok()) return status;
    accumulators->push_back(value);
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
