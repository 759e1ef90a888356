#include "tf_opt/cc/xla/apply_operands.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
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
    absl::Status status = ReadOperand(context, operand, &variables);
    if (!status.ok()) return status;
  }
  for (const Operand& slot : op_.slots) {
    absl::Status status = ReadOperand(context, slot, &variables);
    if (!status.ok()) return status;
  }
  absl::Status status = CheckSlotsHaveOneType();
  return status.ok() ? ReadNumbers(context) : status;
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
  const absl::StatusOr<InputList> list = ListOf(context, operand.name);
  if (!list.ok()) return list.status();
  if (operand.optional && list->count == 0) return absl::OkStatus();
  if (list->count != count_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`", operand.name, "` must have one variable for each of the ", count_,
        " `gradients`, got ", list->count));
  }
  Arrays arrays = {&operand, list->begin, {}, {}};
  for (int i = 0; i < count_; ++i) {
    absl::Status status = ReadArray(context, i, variables, &arrays);
    if (!status.ok()) return status;
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
    absl::Status status =
        ReadTensorOfShape(context, input, shapes_[i], &value, &fits);
    if (!status.ok()) return status;
    const absl::StatusOr<TensorShape> found = ShapeOf(value);
    if (!found.ok()) return found.status();
    shape = *found;
    if (fits.valid()) {
      xla::XlaBuilder* const builder = context->builder();
      const xla::XlaOp before =
          misfit_.valid() ? misfit_ : xla::ConstantR0<int64_t>(builder, -1);
      misfit_ = xla::Select(fits, before, xla::ConstantR0<int64_t>(builder, i));
    }
  } else {
    tensorflow::XlaResource* resource;
    absl::Status status = context->GetResourceInput(input, &resource);
    if (!status.ok()) return status;
    const auto [same, is_new] =
        variables->emplace(resource, absl::StrCat(operand.name, "[", i, "]"));
    if (!is_new) {
      return SameVariable(same->second,
                          absl::StrCat(operand.name, "[", i, "]"));
    }
    status = context->GetVariableTypeAndShape(input, &type, &shape);
    if (!status.ok()) return status;
    status = CheckType(operand.name, i, TypesOf(operand, dtype_), type);
    if (!status.ok()) return status;
    status = context->ReadVariableInput(input, type, &shape, &value);
    if (!status.ok()) return status;
  }
  // The variables come first.
  if (static_cast<int>(shapes_.size()) == i) shapes_.push_back(shape);
  const auto check = operand.is_row_of_table() ? CheckTableShape : CheckShape;
  absl::Status status = check(operand.name, i, shapes_[i], "variables", shape);
  if (!status.ok()) return status;
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
    absl::Status status = ReadScalar(context, scalar);
    if (!status.ok()) return status;
  }
  for (const Operand& slot : op_.slots) {
    if (!slot.is_row_of_table()) continue;
    absl::Status status = ReadScalar(context, slot.row_input);
    if (!status.ok()) return status;
  }
  for (const char* vector : kPerVariableInputs) {
    numbers_.push_back(context->Input(vector));
    const absl::StatusOr<TensorShape> shape = ShapeOf(context, vector);
    if (!shape.ok()) return shape.status();
    absl::Status status = CheckPerVariableShape(vector, count_, *shape);
    if (!status.ok()) return status;
  }
  for (const auto& scalar : kFrameScalars) {
    absl::Status status = ReadScalar(context, scalar.name);
    if (!status.ok()) return status;
  }
  return ReadScalar(context, "seed");
}

absl::Status ApplyOperands::AddTo(CustomCall* call, int first, int end) {
  for (Arrays& arrays : all_) {
    for (int i = first; i < end; ++i) {
      const bool updated = arrays.operand->role == Role::kUpdated;
      absl::Status status = updated ? call->AddUpdated(&arrays.values[i])
                                    : call->AddArgument(arrays.values[i]);
      if (!status.ok()) return status;
    }
  }
  for (const xla::XlaOp number : numbers_) {
    absl::Status status = call->AddArgument(number);
    if (!status.ok()) return status;
  }
  if (op_.sparse) return absl::OkStatus();
  return call->AddArgument(
      misfit_.valid() ? misfit_
                      : xla::ConstantR0<int64_t>(numbers_[0].builder(), -1));
}

void ApplyOperands::SetGradients(const std::vector<xla::XlaOp>& gradients) {
  constexpr int kNoInput = -1;
  all_.push_back({&kFrameOperands[kGradient], kNoInput, gradients,
                  std::vector<DataType>(count_, dtype_)});
}

absl::Status ApplyOperands::Assign(XlaOpKernelContext* context) const {
  for (const Arrays& arrays : all_) {
    if (arrays.operand->role == Role::kRead) continue;
    for (int i = 0; i < count_; ++i) {
      absl::Status status = context->AssignVariable(
          arrays.input + i, arrays.types[i], arrays.values[i]);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
