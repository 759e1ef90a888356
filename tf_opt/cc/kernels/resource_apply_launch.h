// A launch: from a resource-apply op's inputs to an engine's arguments.
#ifndef TF_OPT_CC_KERNELS_RESOURCE_APPLY_LAUNCH_H_
#define TF_OPT_CC_KERNELS_RESOURCE_APPLY_LAUNCH_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/kernels/variable_access.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// An input that is one number for each variable or a single one for all.
struct PerVariable {
  double operator[](int i) const {
    return ReadOnce(numbers + (one_for_all ? 0 : i));
  }

  const double* numbers = nullptr;  // In the device's memory.
  bool one_for_all = false;
};

// The lists of variables and the vectors of a resource-apply op: looked up,
// locked, checked and safe to write. T is TensorFlow's type. What it reads is
// on the host, whatever the device.
template <typename T>
class ResourceApplyLaunch {
 public:
  using Element = typename StorageTypeOf<T>::type;
  using Slot = ComputeType<Element>;

  // After an error nothing has been written and nothing may be launched.
  // `updates` is false of a step that is known only to accumulate; `slices` are
  // the gradients of an op whose gradients are sparse.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       const std::vector<Operand>& slots, bool updates,
                       const CopyBytes& copy_bytes,
                       const RowSlices* slices = nullptr) {
    absl::Status status = context->input_list("gradients", &gradients_);
    if (!status.ok()) return status;
    status = FindPerVariable(context, "weight_decay", &weight_decay_);
    if (!status.ok()) return status;
    status = FindPerVariable(context, "learning_rate_factors",
                             &learning_rate_factors_);
    if (!status.ok()) return status;
    status = FindPerVariable(context, "gradient_factors", &gradient_factors_);
    if (!status.ok()) return status;
    status = FindPerVariable(context, "variable_numbers", &variable_numbers_);
    if (!status.ok()) return status;

    operands_.assign(std::begin(kFrameOperands), std::end(kFrameOperands));
    operands_.insert(operands_.end(), slots.begin(), slots.end());
    lists_.resize(operands_.size());
    // Those of variables that are there.
    std::vector<const VariableList*> lists;
    for (size_t k = 0; k < operands_.size(); ++k) {
      if (operands_[k].role == Role::kRead) continue;
      status = lists_[k].Lookup(context, operands_[k].name);
      if (!status.ok()) return status;
      if (operands_[k].optional && lists_[k].size() == 0) continue;
      status = CheckLength(lists_[k]);
      if (!status.ok()) return status;
      lists.push_back(&lists_[k]);
      if (operands_[k].is_row_of_table()) {
        table_ = k;
        const tensorflow::Tensor* row;
        status = FindScalar(context, row_input(), &row);
        if (!status.ok()) return status;
        row_ = static_cast<const int64_t*>(row->data());
      }
    }

    if (lists_[kMasterWeight].size() > 0 && sizeof(T) != 2) {
      return NoMasterWeights(tensorflow::DataTypeToEnum<T>::value);
    }
    status = locks_.Lock(lists);
    if (!status.ok()) return status;
    for (int i = 0; i < size(); ++i) {
      const tensorflow::TensorShape& shape =
          slices == nullptr ? gradients_[i].shape()
                            : lists_[kVariable][i]->tensor()->shape();
      for (size_t k = 0; k < operands_.size(); ++k) {
        if (lists_[k].size() == 0) continue;
        status = CheckOperand(operands_[k], lists_[k], i, shape,
                              slices == nullptr ? "gradients" : "variables");
        if (!status.ok()) return status;
      }
      if (slices == nullptr) continue;
      status = slices->CheckShapes(i, shape);
      if (!status.ok()) return status;
    }
    for (int i = 0; i < size(); ++i) {
      status = CheckSlotsHaveOneType(i);
      if (!status.ok()) return status;
    }
    for (size_t k = 0; k < operands_.size(); ++k) {
      if (!updates && !IsWrittenWithoutUpdate(k)) continue;
      for (int i = 0; i < lists_[k].size(); ++i) {
        status = MakeExclusive(context, lists_[k][i], copy_bytes);
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  int size() const { return gradients_.size(); }

  const PerVariable& weight_decay() const { return weight_decay_; }
  const PerVariable& learning_rate_factors() const {
    return learning_rate_factors_;
  }
  const PerVariable& gradient_factors() const { return gradient_factors_; }
  const PerVariable& variable_numbers() const { return variable_numbers_; }

  bool has_accumulators() const { return lists_[kAccumulator].size() > 0; }

  // Whether an operand is a row of a table, and of that: its name, the input
  // that says which row, that number in the device's memory, and how many rows
  // all its tables have.
  bool has_table() const { return table_ >= 0; }
  const char* table() const { return operands_[table_].name; }
  const char* row_input() const { return operands_[table_].row_input; }
  const int64_t* row() const { return row_; }
  int64_t rows() const {
    const VariableList& tables = lists_[table_];
    int64_t rows = tables[0]->tensor()->dim_size(0);
    for (int i = 1; i < size(); ++i) {
      rows = std::min(rows, tables[i]->tensor()->dim_size(0));
    }
    return rows;
  }

  // Whether anything is rounded at random.
  bool uses_random_bits(const FrameInputs& frame) const {
    if (frame.stochastic_rounding && sizeof(T) == 2 &&
        lists_[kMasterWeight].size() == 0) {
      return true;
    }
    for (size_t k = 0; k < operands_.size(); ++k) {
      if (operands_[k].storage != Storage::kState ||
          operands_[k].rounding != Rounding::kAtRandom) {
        continue;
      }
      for (int i = 0; i < lists_[k].size(); ++i) {
        if (StateTypeOf(k, i) == StateType::kBFloat16) return true;
      }
    }
    return false;
  }

  // How many rows the i-th variable has.
  int64_t variable_rows(int i) const {
    return lists_[kVariable][i]->tensor()->dim_size(0);
  }

  // A table of which an operand is a row by its first row.
  template <int kSlots>
  std::vector<DenseTensor<Element, kSlots>> Tensors() const {
    std::vector<DenseTensor<Element, kSlots>> tensors(size());
    for (int i = 0; i < size(); ++i) {
      tensors[i].size = lists_[kVariable][i]->tensor()->NumElements();
      for (int k = 0; k < tensors[i].kOperands; ++k) {
        if (lists_[k].size() == 0) continue;
        tensors[i].operands[k] = lists_[k][i]->tensor()->data();
        tensors[i].types[k] = StateTypeOf(k, i);
      }
      tensors[i].operands[kGradient] = gradients_[i].data();
    }
    return tensors;
  }

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

  // Once checked, how an operand is stored that is state.
  StateType StateTypeOf(int operand, int i) const {
    if (operands_[operand].storage != Storage::kState) {
      return StateType::kArithmetic;
    }
    const tensorflow::DataType type = lists_[operand][i]->tensor()->dtype();
    if (type == tensorflow::DataTypeToEnum<Slot>::value) {
      return StateType::kArithmetic;
    }
    return type == tensorflow::DT_BFLOAT16 ? StateType::kBFloat16
                                           : StateType::kFloat;
  }

  // Those slots of a variable that may be stored shorter: there is a loop for
  // each type, not for each mixture.
  absl::Status CheckSlotsHaveOneType(int i) const {
    int first = -1;
    for (int k = kFrameOperandCount; k < static_cast<int>(operands_.size());
         ++k) {
      if (operands_[k].storage != Storage::kState) continue;
      if (first < 0) first = k;
      const tensorflow::DataType expected = lists_[first][i]->tensor()->dtype();
      const tensorflow::DataType type = lists_[k][i]->tensor()->dtype();
      if (type == expected) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("`", operands_[k].name, "[", i,
                       "]` must have the type of `", operands_[first].name, "[",
                       i, "]`, ", tensorflow::DataTypeString(expected),
                       ", got ", tensorflow::DataTypeString(type)));
    }
    return absl::OkStatus();
  }

  // What a step writes that only accumulates: no slot, and a variable only by
  // its average.
  bool IsWrittenWithoutUpdate(int operand) const {
    return operand == kAccumulator || operand == kAverage ||
           ((operand == kVariable || operand == kMasterWeight) &&
            lists_[kAverage].size() > 0);
  }

  absl::Status CheckLength(const VariableList& list) const {
    if (list.size() == size()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "`", list.name(), "` must have one variable for each of the ", size(),
        " `gradients`, got ", list.size()));
  }

  absl::Status FindPerVariable(tensorflow::OpKernelContext* context,
                               const char* name, PerVariable* found) const {
    const tensorflow::Tensor* tensor;
    absl::Status status = context->input(name, &tensor);
    if (!status.ok()) return status;
    found->numbers = static_cast<const double*>(tensor->data());
    found->one_for_all = tensor->dims() == 0;
    if (tensor->dims() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", name, "` must be a scalar or a vector, got shape ",
                       tensor->shape().DebugString()));
    }
    if (!found->one_for_all && tensor->NumElements() != size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("`", name, "` must have one element for each of the ",
                       size(), " `variables`, got ", tensor->NumElements()));
    }
    return absl::OkStatus();
  }

  PerVariable weight_decay_;
  PerVariable learning_rate_factors_;
  PerVariable gradient_factors_;
  PerVariable variable_numbers_;
  int table_ = -1;  // Which operand is a row of a table.
  const int64_t* row_ = nullptr;
  std::vector<Operand> operands_;
  std::vector<VariableList> lists_;  // For each operand; empty: it isn't there.
  tensorflow::OpInputList gradients_;
  // Last, so that it unlocks before the variables are let go of.
  ScopedVariableLocks locks_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_RESOURCE_APPLY_LAUNCH_H_
