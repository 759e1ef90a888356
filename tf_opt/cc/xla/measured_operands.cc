#include "tf_opt/cc/xla/measured_operands.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/xla/op_inputs.h"

namespace tf_opt {

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
  for (int i = 0; i < list->count; ++i) {
    tensorflow::TensorShape shape;
    xla::XlaOp value;
    absl::Status status = context->ReadVariableInput(
        list->begin + i, ArithmeticType(dtype), &shape, &value);
    if (!status.ok()) return status;
    status = CheckShape("accumulators", i, shapes[i], whose, shape);
    if (!status.ok()) return status;
    accumulators->push_back(value);
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
