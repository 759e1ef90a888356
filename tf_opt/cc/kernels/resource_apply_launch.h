// A launch: from a resource-apply op's inputs to an engine's arguments.
#ifndef TF_OPT_CC_KERNELS_RESOURCE_APPLY_LAUNCH_H_
#define TF_OPT_CC_KERNELS_RESOURCE_APPLY_LAUNCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/kernels/slice_inputs.h"
#include "tf_opt/cc/kernels/variable_access.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// The lists of variables and the vectors of a resource-apply op: looked up,
// locked, checked and safe to write. T is TensorFlow's type. What it reads is
// on the host, whatever the device.
template <typename T>
class ResourceApplyLaunch : public ApplyLaunch<ResourceApplyLaunch<T>, T> {
 public:
  // After an error nothing has been written and nothing may be launched.
  // `updates` is false of a step that is known only to accumulate; `slices` are
  // the gradients of an op whose gradients are sparse.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       const std::vector<Operand>& slots, bool updates,
                       const CopyBytes& copy_bytes,
                       const SliceInputs* slices = nullptr) {
    TF_RETURN_IF_ERROR(context->input_list("gradients", &gradients_));
    TF_RETURN_IF_ERROR(
        FindPerVariable(context, "weight_decay", &this->weight_decay_));
    TF_RETURN_IF_ERROR(FindPerVariable(context, "learning_rate_factors",
                                       &this->learning_rate_factors_));
    TF_RETURN_IF_ERROR(
        FindPerVariable(context, "gradient_factors", &this->gradient_factors_));
    TF_RETURN_IF_ERROR(
        FindPerVariable(context, "variable_numbers", &this->variable_numbers_));

    this->SetOperands(slots);
    const std::vector<Operand>& operands = this->operands();
    lists_.resize(operands.size());
    // Those of variables that are there.
    std::vector<const VariableList*> lists;
    for (size_t k = 0; k < operands.size(); ++k) {
      if (operands[k].role == Role::kRead) continue;
      TF_RETURN_IF_ERROR(lists_[k].Lookup(context, operands[k].name));
      if (operands[k].optional && lists_[k].size() == 0) continue;
      TF_RETURN_IF_ERROR(CheckLength(lists_[k]));
      lists.push_back(&lists_[k]);
      if (operands[k].is_row_of_table()) {
        const tensorflow::Tensor* row;
        TF_RETURN_IF_ERROR(FindScalar(context, operands[k].row_input, &row));
        this->SetTable(k, static_cast<const int64_t*>(row->data()));
      }
    }

    if (lists_[kMasterWeight].size() > 0 && sizeof(T) != 2) {
      return NoMasterWeights(tensorflow::DataTypeToEnum<T>::value);
    }
    TF_RETURN_IF_ERROR(locks_.Lock(lists));
    for (int i = 0; i < gradients_.size(); ++i) {
      const tensorflow::TensorShape& shape =
          slices == nullptr ? gradients_[i].shape()
                            : lists_[kVariable][i]->tensor()->shape();
      for (size_t k = 0; k < operands.size(); ++k) {
        if (lists_[k].size() == 0) continue;
        TF_RETURN_IF_ERROR(
            CheckOperand(operands[k], lists_[k], i, shape,
                         slices == nullptr ? "gradients" : "variables"));
      }
      if (slices == nullptr) continue;
      TF_RETURN_IF_ERROR(slices->CheckShapes(i, shape));
    }
    TF_RETURN_IF_ERROR(this->CheckSlotsHaveOneType());
    for (size_t k = 0; k < operands.size(); ++k) {
      if (!updates && !IsWrittenWithoutUpdate(k)) continue;
      for (int i = 0; i < lists_[k].size(); ++i) {
        TF_RETURN_IF_ERROR(MakeExclusive(context, lists_[k][i], copy_bytes));
      }
    }
    return absl::OkStatus();
  }

  // What ApplyLaunch asks.
  int count(int k) const {
    return k == kGradient ? gradients_.size() : lists_[k].size();
  }
  tensorflow::DataType type(int k, int i) const { return tensor(k, i).dtype(); }
  void* data(int k, int i) const { return tensor(k, i).data(); }
  int64_t first_dimension(int k, int i) const {
    return tensor(k, i).dim_size(0);
  }
  int64_t elements(int k, int i) const { return tensor(k, i).NumElements(); }

 private:
  // `whose` has this shape too.
  static absl::Status CheckOperand(const Operand& operand,
                                   const VariableList& list, int i,
                                   const tensorflow::TensorShape& shape,
                                   const char* whose) {
    const TypeList types =
        TypesOf(operand, tensorflow::DataTypeToEnum<T>::value);
    return operand.is_row_of_table()
               ? CheckTable(list, i, types, shape, whose)
               : CheckVariable(list, i, types, shape, whose);
  }

  // What a step writes that only accumulates: no slot, and a variable only by
  // its average.
  bool IsWrittenWithoutUpdate(int operand) const {
    return operand == kAccumulator || operand == kAverage ||
           ((operand == kVariable || operand == kMasterWeight) &&
            lists_[kAverage].size() > 0);
  }

  absl::Status CheckLength(const VariableList& list) const {
    if (list.size() == gradients_.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "`", list.name(), "` must have one variable for each of the ",
        gradients_.size(), " `gradients`, got ", list.size()));
  }

  absl::Status FindPerVariable(tensorflow::OpKernelContext* context,
                               const char* name, PerVariable* found) const {
    const tensorflow::Tensor* tensor;
    TF_RETURN_IF_ERROR(context->input(name, &tensor));
    found->numbers = static_cast<const double*>(tensor->data());
    found->one_for_all = tensor->dims() == 0;
    found->count = tensor->NumElements();
    return CheckPerVariableShape(name, gradients_.size(), tensor->shape());
  }

  const tensorflow::Tensor& tensor(int k, int i) const {
    return k == kGradient ? gradients_[i] : *lists_[k][i]->tensor();
  }

  std::vector<VariableList> lists_;  // For each operand; empty: it isn't there.
  tensorflow::OpInputList gradients_;
  // Last, so that it unlocks before the variables are let go of.
  ScopedVariableLocks locks_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_RESOURCE_APPLY_LAUNCH_H_
