// A dense launch: from an op's inputs to an engine's arguments.
#ifndef TF_OPT_CC_KERNELS_DENSE_LAUNCH_H_
#define TF_OPT_CC_KERNELS_DENSE_LAUNCH_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/kernels/variable_access.h"
#include "tf_opt/cc/rules/slot_list.h"

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
class DenseLaunch {
 public:
  using Storage = typename StorageTypeOf<T>::type;
  using Slot = ComputeType<Storage>;

  // After an error nothing has been written and nothing may be launched.
  // `updates` is false of a step that is known only to accumulate.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       const std::vector<SlotList>& slot_lists, bool updates,
                       const CopyBytes& copy_bytes) {
    absl::Status status = context->input_list("gradients", &gradients_);
    if (!status.ok()) return status;
    status = FindPerVariable(context, "weight_decay", &weight_decay_);
    if (!status.ok()) return status;
    status = FindPerVariable(context, "learning_rate_factors",
                             &learning_rate_factors_);
    if (!status.ok()) return status;
    status = FindPerVariable(context, "gradient_factors", &gradient_factors_);
    if (!status.ok()) return status;

    std::vector<const VariableList*> lists;
    const auto look_up = [&](const char* name, bool optional,
                             VariableList* list) {
      status = list->Lookup(context, name);
      if (!status.ok() || (optional && list->size() == 0)) return status;
      lists.push_back(list);
      return CheckLength(*list);
    };
    status = look_up("variables", false, &variables_);
    if (!status.ok()) return status;
    status = look_up("accumulators", true, &accumulators_);
    if (!status.ok()) return status;
    status = look_up("averages", true, &averages_);
    if (!status.ok()) return status;
    slots_.resize(slot_lists.size());
    for (size_t k = 0; k < slot_lists.size(); ++k) {
      status = look_up(slot_lists[k].name, false, &slots_[k]);
      if (!status.ok()) return status;
      if (slot_lists[k].is_table()) {
        table_slot_ = k;
        row_input_ = slot_lists[k].row_input;
        const tensorflow::Tensor* row;
        status = FindScalar(context, row_input_, &row);
        if (!status.ok()) return status;
        row_ = static_cast<const int64_t*>(row->data());
      }
    }

    status = locks_.Lock(lists);
    if (!status.ok()) return status;
    constexpr tensorflow::DataType kType = tensorflow::DataTypeToEnum<T>::value;
    constexpr tensorflow::DataType kSlotType =
        tensorflow::DataTypeToEnum<Slot>::value;
    for (int i = 0; i < size(); ++i) {
      for (const VariableList* list : lists) {
        const bool is_table = table_slot_ >= 0 && list == &slots_[table_slot_];
        const tensorflow::DataType type =
            list == &variables_ ? kType : kSlotType;
        status = is_table ? CheckTable(*list, i, type, gradients_[i].shape())
                          : CheckVariable(*list, i, type, gradients_[i].shape(),
                                          "gradients");
        if (!status.ok()) return status;
      }
    }
    if (!updates) {
      // No slot is written, and a variable only by its average.
      lists = {&accumulators_, &averages_};
      if (averages_.size() > 0) lists.push_back(&variables_);
    }
    for (const VariableList* list : lists) {
      for (int i = 0; i < list->size(); ++i) {
        status = MakeExclusive(context, (*list)[i], copy_bytes);
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

  bool has_accumulators() const { return accumulators_.size() > 0; }

  // Which slot is a row of a table; negative if none is.
  int table_slot() const { return table_slot_; }

  // Of that slot: its input, the one that says which row, that number in the
  // device's memory, and how many rows all its tables have.
  const std::string& table() const { return slots_[table_slot_].name(); }
  const char* row_input() const { return row_input_; }
  const int64_t* row() const { return row_; }
  int64_t rows() const {
    const VariableList& tables = slots_[table_slot_];
    int64_t rows = tables[0]->tensor()->dim_size(0);
    for (int i = 1; i < size(); ++i) {
      rows = std::min(rows, tables[i]->tensor()->dim_size(0));
    }
    return rows;
  }

  // A table by its first row.
  template <int kSlots>
  std::vector<DenseTensor<Storage, kSlots>> Tensors() const {
    std::vector<DenseTensor<Storage, kSlots>> tensors(size());
    for (int i = 0; i < size(); ++i) {
      auto& tensor = tensors[i];
      tensor.size = gradients_[i].NumElements();
      tensor.variable = static_cast<Storage*>(variables_[i]->tensor()->data());
      tensor.gradient = static_cast<const Storage*>(gradients_[i].data());
      for (int k = 0; k < kSlots; ++k) tensor.slots[k] = Data(slots_[k], i);
      tensor.accumulator = Data(accumulators_, i);
      tensor.average = Data(averages_, i);
    }
    return tensors;
  }

 private:
  // Null where the list is empty.
  static Slot* Data(const VariableList& list, int i) {
    if (list.size() == 0) return nullptr;
    return static_cast<Slot*>(list[i]->tensor()->data());
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
  int table_slot_ = -1;
  const char* row_input_ = nullptr;
  const int64_t* row_ = nullptr;
  VariableList variables_;
  std::vector<VariableList> slots_;
  VariableList accumulators_;
  VariableList averages_;
  tensorflow::OpInputList gradients_;
  // Last, so that it unlocks before the variables are let go of.
  ScopedVariableLocks locks_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_DENSE_LAUNCH_H_
