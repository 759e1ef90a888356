#include "tf_opt/cc/xla/apply_operands.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/statusor.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/ops/shape_functions.h"
#include "tf_opt/cc/rules/step_frame.h"
#include "tf_opt/cc/xla/op_inputs.h"

namespace tf_opt {

using ::tensorflow::DataType;
using ::tensorflow::TensorShape;
using ::tensorflow::XlaOpKernelContext;

absl::Status ApplyOperands::Read(XlaOpKernelContext* context) {
  std::map<const void*, std::string> variables;
  for (const Operand& operand : kFrameOperands) {
    if (op_.sparse && operand.role == Role::kRead) continue;
    TF_RETURN_IF_ERROR(ReadOperand(context, operand, &variables));
  }
  for (const Operand& slot : op_.slots) {
    TF_RETURN_IF_ERROR(ReadOperand(context, slot, &variables));
  }
  TF_RETURN_IF_ERROR(CheckSlotsHaveOneType());
  return ReadNumbers(context);
}

absl::Status ApplyOperands::CheckSlotsHaveOneType() const {
  const Arrays* first = nullptr;
  for (const Arrays& arrays : all_) {
    const bool is_slot = std::any_of(
        op_.slots.begin(), op_.slots.end(),
        [&](const Operand& slot) { return &slot == arrays.operand; });
    if (!is_slot || arrays.operand->storage != Storage::kState) continue;
    if (first == nullptr) first = &arrays;
    for (int i = 0; i < count_; ++i) {
      if (arrays.types[i] == first->types[i]) continue;
      return OtherSlotType(arrays.operand->name, i, arrays.types[i],
                           first->operand->name, first->types[i]);
    }
  }
  return absl::OkStatus();
}

// There may be no arrays of it.
absl::Status ApplyOperands::ReadOperand(
    XlaOpKernelContext* context, const Operand& operand,
    std::map<const void*, std::string>* variables) {
  TF_ASSIGN_OR_RETURN(const InputList list, ListOf(context, operand.name));
  if (operand.optional && list.count == 0) return absl::OkStatus();
  if (list.count != count_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`", operand.name, "` must have one variable for each of the ", count_,
        " `gradients`, got ", list.count));
  }
  Arrays arrays = {&operand, list.begin, {}, {}};
  for (int i = 0; i < count_; ++i) {
    TF_RETURN_IF_ERROR(ReadArray(context, i, variables, &arrays));
  }
  all_.push_back(std::move(arrays));
  return absl::OkStatus();
}

absl::Status ApplyOperands::ReadArray(
    XlaOpKernelContext* context, int i,
    std::map<const void*, std::string>* variables, Arrays* arrays) {
  const Operand& operand = *arrays->operand;
  const int input = arrays->input + i;
  TensorShape shape;
  DataType type = dtype_;
  xla::XlaOp value;
  if (operand.role == Role::kRead) {
    xla::XlaOp fits;
    TF_RETURN_IF_ERROR(
        ReadTensorOfShape(context, input, shapes_[i], &value, &fits));
    TF_ASSIGN_OR_RETURN(const TensorShape found, ShapeOf(value));
    shape = found;
    if (fits.valid()) {
      xla::XlaBuilder* const builder = context->builder();
      const xla::XlaOp before =
          misfit_.valid() ? misfit_ : xla::ConstantR0<int64_t>(builder, -1);
      misfit_ = xla::Select(fits, before, xla::ConstantR0<int64_t>(builder, i));
    }
  } else {
    tensorflow::XlaResource* resource;
    TF_RETURN_IF_ERROR(context->GetResourceInput(input, &resource));
    const auto [same, is_new] =
        variables->emplace(resource, absl::StrCat(operand.name, "[", i, "]"));
    if (!is_new) {
      return SameVariable(same->second,
                          absl::StrCat(operand.name, "[", i, "]"));
    }
    TF_RETURN_IF_ERROR(context->GetVariableTypeAndShape(input, &type, &shape));
    TF_RETURN_IF_ERROR(
        CheckType(operand.name, i, TypesOf(operand, dtype_), type));
    TF_RETURN_IF_ERROR(context->ReadVariableInput(input, type, &shape, &value));
  }
  // The variables come first.
  if (static_cast<int>(shapes_.size()) == i) shapes_.push_back(shape);
  const auto check = operand.is_row_of_table() ? CheckTableShape : CheckShape;
  TF_RETURN_IF_ERROR(check(operand.name, i, shapes_[i], "variables", shape));
  if (operand.is_row_of_table()) {
    table_rows_ = std::min(table_rows_, shape.dim_size(0));
  }
  arrays->types.push_back(type);
  arrays->values.push_back(value);
  return absl::OkStatus();
}

absl::Status ApplyOperands::ReadScalar(XlaOpKernelContext* context,
                                       const std::string& name) {
  numbers_.push_back(context->Input(name));
  const absl::StatusOr<TensorShape> shape = ShapeOf(context, name);
  return shape.ok() ? CheckScalarShape(name, *shape) : shape.status();
}

absl::Status ApplyOperands::ReadNumbers(XlaOpKernelContext* context) {
  for (const std::string& scalar : op_.scalars) {
    TF_RETURN_IF_ERROR(ReadScalar(context, scalar));
  }
  for (const Operand& slot : op_.slots) {
    if (!slot.is_row_of_table()) continue;
    TF_RETURN_IF_ERROR(ReadScalar(context, slot.row_input));
  }
  for (const char* vector : kPerVariableInputs) {
    numbers_.push_back(context->Input(vector));
    TF_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOf(context, vector));
    TF_RETURN_IF_ERROR(CheckPerVariableShape(vector, count_, shape));
  }
  for (const auto& scalar : kFrameScalars) {
    TF_RETURN_IF_ERROR(ReadScalar(context, scalar.name));
  }
  return ReadScalar(context, "seed");
}

absl::Status ApplyOperands::AddTo(CustomCall* call, int first, int end) {
  for (Arrays& arrays : all_) {
    for (int i = first; i < end; ++i) {
      const bool updated = arrays.operand->role == Role::kUpdated;
      TF_RETURN_IF_ERROR(updated ? call->AddUpdated(&arrays.values[i])
                                 : call->AddArgument(arrays.values[i]));
    }
  }
  for (const xla::XlaOp number : numbers_) {
    TF_RETURN_IF_ERROR(call->AddArgument(number));
  }
  if (op_.sparse) return absl::OkStatus();
  return call->AddArgument(
      misfit_.valid() ? misfit_
                      : xla::ConstantR0<int64_t>(numbers_[0].builder(), -1));
}

absl::Status ApplyOperands::Assign(XlaOpKernelContext* context) const {
  for (const Arrays& arrays : all_) {
    if (arrays.operand->role == Role::kRead) continue;
    for (int i = 0; i < count_; ++i) {
      TF_RETURN_IF_ERROR(context->AssignVariable(
          arrays.input + i, arrays.types[i], arrays.values[i]));
    }
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
