#include "tf_opt/cc/kernels/resource_apply_launch.h"

#include <cstddef>

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/ops/operand_checks.h"

namespace tf_opt {

absl::Status ResourceApplyLaunch::Prepare(tensorflow::OpKernelContext* context,
                                          const SliceAttributes& attributes,
                                          bool updates,
                                          const CopyBytes& copy_bytes) {
  TF_RETURN_IF_ERROR(LockVariables(context));
  TF_RETURN_IF_ERROR(FindGradients(context, attributes));
  const bool catches_up = since() >= 0 && lists_[kAccumulator].size() == 0;
  for (int k = 0; k < static_cast<int>(lists_.size()); ++k) {
    const bool written = updates || catches_up || IsWrittenWithoutUpdate(k);
    for (int i = 0; i < lists_[k].size(); ++i) {
      if (written) {
        TF_RETURN_IF_ERROR(MakeExclusive(context, lists_[k][i], copy_bytes));
      }
      array(k, i) = ArrayOf(*lists_[k][i]->tensor());
    }
  }
  if (has_table()) table_rows = SmallestTable();
  return CheckTypes();
}

absl::Status ResourceApplyLaunch::LockVariables(
    tensorflow::OpKernelContext* context) {
  lists_.resize(operands().size());
  std::vector<const VariableList*> present;
  for (std::size_t k = 0; k < lists_.size(); ++k) {
    const Operand& operand = operands()[k];
    if (operand.role == Role::kRead) continue;
    TF_RETURN_IF_ERROR(lists_[k].Lookup(context, operand.name));
    TF_RETURN_IF_ERROR(CheckLength(operand.name, "variable", operand.optional,
                                   size(), lists_[k].size()));
    present.push_back(&lists_[k]);
  }
  return locks_.Lock(present);
}

absl::Status ResourceApplyLaunch::FindGradients(
    tensorflow::OpKernelContext* context, const SliceAttributes& attributes) {
  tensorflow::OpInputList gradients;
  TF_RETURN_IF_ERROR(context->input_list("gradients", &gradients));
  const char* const whose = attributes.sparse() ? "variables" : "gradients";
  std::vector<tensorflow::TensorShape> tables;
  for (int i = 0; i < size(); ++i) {
    const tensorflow::TensorShape& shape =
        attributes.sparse() ? lists_[kVariable][i]->tensor()->shape()
                            : gradients[i].shape();
    for (std::size_t k = 0; k < lists_.size(); ++k) {
      if (lists_[k].size() == 0) continue;
      TF_RETURN_IF_ERROR(CheckVariable(lists_[k], i, operands()[k],
                                       gradients[i].dtype(), shape, whose));
    }
    if (attributes.sparse()) {
      tables.push_back(shape);
    } else {
      array(kGradient, i) = ArrayOf(gradients[i]);
    }
  }
  return attributes.sparse() ? FindSlices(context, attributes, tables, &slices)
                             : absl::OkStatus();
}

// A step that only accumulates writes no slot, and a variable only where it
// stores an average.
bool ResourceApplyLaunch::IsWrittenWithoutUpdate(int operand) const {
  return operand == kAccumulator || operand == kAverage ||
         ((operand == kVariable || operand == kMasterWeight) &&
          lists_[kAverage].size() > 0);
}

}  // namespace tf_opt
