#include "tf_opt/cc/xla/apply_operands.h"

#include <iterator>
#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/xla/custom_call.h"

namespace tf_opt {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::TensorShape;

class Reader {
 public:
  Reader(tensorflow::XlaOpKernelContext* context, DataType dtype, int count)
      : context_(context), dtype_(dtype), count_(count) {}

  // Those of arrays->operand. `shapes` are those of the variables, which are
  // read first.
  absl::Status Read(std::vector<TensorShape>* shapes, OperandArrays* arrays) {
    const Operand& operand = arrays->operand;
    int begin, end;
    absl::Status status =
        context_->op_kernel().InputRange(operand.name, &begin, &end);
    if (!status.ok()) return status;
    if (operand.optional && begin == end) return absl::OkStatus();
    if (end - begin != count_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`", operand.name, "` must have one variable for each of the ",
          count_, " `gradients`, got ", end - begin));
    }
    arrays->input = begin;
    for (int i = 0; i < count_; ++i) {
      TensorShape shape;
      DataType type = dtype_;
      xla::XlaOp value;
      status = operand.role == Role::kRead
                   ? ReadTensor(begin + i, &shape, &value)
                   : ReadVariable(operand, i, begin + i, &type, &shape, &value);
      if (!status.ok()) return status;
      if (static_cast<int>(shapes->size()) == i) shapes->push_back(shape);
      const auto check =
          operand.is_row_of_table() ? CheckTableShape : CheckShape;
      status = check(operand.name, i, (*shapes)[i], "variables", shape);
      if (!status.ok()) return status;
      arrays->types.push_back(type);
      arrays->values.push_back(value);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadTensor(int input, TensorShape* shape, xla::XlaOp* value) {
    const absl::StatusOr<TensorShape> found = ShapeOf(context_, input);
    if (!found.ok()) return found.status();
    *shape = *found;
    *value = context_->Input(input);
    return absl::OkStatus();
  }

  absl::Status ReadVariable(const Operand& operand, int i, int input,
                            DataType* type, TensorShape* shape,
                            xla::XlaOp* value) {
    tensorflow::XlaResource* resource;
    absl::Status status = context_->GetResourceInput(input, &resource);
    if (!status.ok()) return status;
    const auto [same, is_new] = variables_.emplace(
        resource, absl::StrCat("`", operand.name, "[", i, "]`"));
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat(same->second, " and `", operand.name, "[", i,
                       "]` are the same variable; each must occur once"));
    }
    status = context_->GetVariableTypeAndShape(input, type, shape);
    if (!status.ok()) return status;
    status = CheckType(operand.name, i, TypesOf(operand, dtype_), *type);
    if (!status.ok()) return status;
    return context_->ReadVariableInput(input, *type, shape, value);
  }

  tensorflow::XlaOpKernelContext* const context_;
  const DataType dtype_;
  const int count_;
  std::map<const void*, std::string> variables_;  // And what they are.
};

}  // namespace

absl::Status ApplyOperands::Read(tensorflow::XlaOpKernelContext* context,
                                 const std::vector<Operand>& slots,
                                 DataType dtype, int count) {
  std::vector<Operand> operands(std::begin(kFrameOperands),
                                std::end(kFrameOperands));
  operands.insert(operands.end(), slots.begin(), slots.end());
  Reader reader(context, dtype, count);
  for (const Operand& operand : operands) {
    OperandArrays read = {operand};
    absl::Status status = reader.Read(&shapes, &read);
    if (!status.ok()) return status;
    arrays.push_back(std::move(read));
  }
  return absl::OkStatus();
}

absl::Status ApplyOperands::Assign(
    tensorflow::XlaOpKernelContext* context) const {
  for (const OperandArrays& each : arrays) {
    if (each.operand.role == Role::kRead) continue;
    for (int i = 0; i < static_cast<int>(each.values.size()); ++i) {
      absl::Status status = context->AssignVariable(
          each.input + i, each.types[i], each.values[i]);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
