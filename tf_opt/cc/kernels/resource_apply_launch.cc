#include "tf_opt/cc/kernels/resource_apply_launch.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/ops/shape_functions.h"

namespace tf_opt {
namespace {

LaunchArray ArrayOf(const tensorflow::Tensor& tensor) {
  return {tensor.data(), tensor.dtype(), tensor.NumElements(),
          tensor.dims() > 0 ? tensor.dim_size(0) : 1};
}

}  // namespace

absl::Status ResourceApplyLaunch::Prepare(tensorflow::OpKernelContext* context,
                                          const std::vector<Operand>& slots,
                                          bool updates,
                                          const CopyBytes& copy_bytes,
                                          const SliceInputs* slices) {
  TF_RETURN_IF_ERROR(context->input_list("gradients", &gradients_));
  static_cast<ApplyLaunch&>(*this) = ApplyLaunch(slots, gradients_.size());
  TF_RETURN_IF_ERROR(FindVectors(context));
  TF_RETURN_IF_ERROR(FindVariables(context));
  TF_RETURN_IF_ERROR(CheckVariables(slices));
  for (int k = 0; k < static_cast<int>(lists_.size()); ++k) {
    const bool written = updates || IsWrittenWithoutUpdate(k);
    for (int i = 0; i < lists_[k].size(); ++i) {
      if (written) {
        TF_RETURN_IF_ERROR(MakeExclusive(context, lists_[k][i], copy_bytes));
      }
      array(k, i) = ArrayOf(*lists_[k][i]->tensor());
    }
  }
  for (int i = 0; slices == nullptr && i < size(); ++i) {
    array(kGradient, i) = ArrayOf(gradients_[i]);
  }
  if (has_table()) table_rows = SmallestTable();
  return CheckTypes();
}

absl::Status ResourceApplyLaunch::FindVectors(
    tensorflow::OpKernelContext* context) {
  PerVariable* vector = vectors.data();
  for (const char* name : kPerVariableInputs) {
    const tensorflow::Tensor* tensor;
    TF_RETURN_IF_ERROR(context->input(name, &tensor));
    TF_RETURN_IF_ERROR(CheckPerVariableShape(name, size(), tensor->shape()));
    *vector++ = {static_cast<const double*>(tensor->data()),
                 tensor->NumElements()};
  }
  if (!has_table()) return absl::OkStatus();
  const tensorflow::Tensor* number;
  TF_RETURN_IF_ERROR(
      FindScalar(context, operands()[table()].row_input, &number));
  row = static_cast<const int64_t*>(number->data());
  return absl::OkStatus();
}

absl::Status ResourceApplyLaunch::FindVariables(
    tensorflow::OpKernelContext* context) {
  lists_.resize(operands().size());
  std::vector<const VariableList*> present;
  for (std::size_t k = 0; k < lists_.size(); ++k) {
    const Operand& operand = operands()[k];
    VariableList& list = lists_[k];
    if (operand.role == Role::kRead) continue;
    TF_RETURN_IF_ERROR(list.Lookup(context, operand.name));
    if (operand.optional && list.size() == 0) continue;
    if (list.size() != size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`", list.name(), "` must have one variable for each of the ", size(),
          " `gradients`, got ", list.size()));
    }
    present.push_back(&list);
  }
  return locks_.Lock(present);
}

absl::Status ResourceApplyLaunch::CheckVariables(
    const SliceInputs* slices) const {
  const char* const whose = slices == nullptr ? "gradients" : "variables";
  for (int i = 0; i < size(); ++i) {
    const tensorflow::TensorShape& shape =
        slices == nullptr ? gradients_[i].shape()
                          : lists_[kVariable][i]->tensor()->shape();
    for (std::size_t k = 0; k < lists_.size(); ++k) {
      if (lists_[k].size() == 0) continue;
      const Operand& operand = operands()[k];
      const auto check = operand.is_row_of_table() ? CheckTable : CheckVariable;
      TF_RETURN_IF_ERROR(check(
          lists_[k], i, TypesOf(operand, gradients_[i].dtype()), shape, whose));
    }
    if (slices == nullptr) continue;
    TF_RETURN_IF_ERROR(slices->CheckShapes(i, shape));
  }
  return absl::OkStatus();
}

// A step that only accumulates writes no slot, and a variable only where it
// stores an average.
bool ResourceApplyLaunch::IsWrittenWithoutUpdate(int operand) const {
  return operand == kAccumulator || operand == kAverage ||
         ((operand == kVariable || operand == kMasterWeight) &&
          lists_[kAverage].size() > 0);
}

}  // namespace tf_opt
