#include "tf_opt/cc/xla/measured_operands.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/xla/custom_call.h"

namespace tf_opt {

absl::Status MeasuredOperands::Read(tensorflow::XlaOpKernelContext* context,
                                    tensorflow::DataType dtype) {
  const tensorflow::OpKernel& kernel = context->op_kernel();
  int first, end;
  absl::Status status = kernel.InputRange("gradients", &first, &end);
  if (!status.ok()) return status;
  for (int i = first; i < end; ++i) gradients.push_back(context->Input(i));
  const int count = end - first;
  int begin;
  status = kernel.InputRange("accumulators", &begin, &end);
  if (!status.ok()) return status;
  if (begin != end && end - begin != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`accumulators` must be empty or have one variable for each of the ",
        count, " `gradients`, got ", end - begin));
  }
  for (int i = 0; i < end - begin; ++i) {
    tensorflow::TensorShape shape;
    xla::XlaOp value;
    status = context->ReadVariableInput(begin + i, ArithmeticType(dtype),
                                        &shape, &value);
    if (!status.ok()) return status;
    const absl::StatusOr<tensorflow::TensorShape> expected =
        ShapeOf(context, first + i);
    if (!expected.ok()) return expected.status();
    status = CheckShape("accumulators", i, *expected, "gradients", shape);
    if (!status.ok()) return status;
    accumulators.push_back(value);
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
