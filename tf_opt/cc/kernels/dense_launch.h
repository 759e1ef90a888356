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
#include "tf_opt/cc/kernels/variable_access.h"

namespace tf_opt {

// The engine's name for a TensorFlow element type of the same bits.
template <typename T>
struct StorageTypeOf {
  using type = T;
};
template <>
struct StorageTypeOf<Eigen::half> {
  using type = Half;
};
template <>
struct StorageTypeOf<Eigen::bfloat16> {
  using type = BFloat16;
};

// One input list of slots. In a table a slot is one of many rows, and the shape
// of the variable behind it is [rows] + the shape of what it belongs to.
struct SlotInput {
  SlotInput() = default;
  SlotInput(const char* name) : name(name) {}
  SlotInput(const char* name, const char* row_input)
      : name(name), is_table(true), row_input(row_input) {}

  std::string name;
  bool is_table = false;
  std::string row_input;  // The scalar that says which row.
};

// The inputs `variables`, `gradients`, `weight_decay` and the slot lists of a
// resource-apply op: looked up, locked, checked and safe to write. T is
// TensorFlow's type. What it reads is on the host, whatever the device.
template <typename T>
class DenseLaunch {
 public:
  using Storage = typename StorageTypeOf<T>::type;
  using Slot = ComputeType<Storage>;

  // After an error nothing has been written and nothing may be launched.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       const std::vector<SlotInput>& slot_inputs,
                       const CopyBytes& copy_bytes) {
    const tensorflow::Tensor* weight_decay;
    absl::Status status = FindVector(context, "weight_decay", &weight_decay);
    if (!status.ok()) return status;
    weight_decay_ = static_cast<const double*>(weight_decay->data());
    status = variables_.Lookup(context, "variables");
    if (!status.ok()) return status;
    status = context->input_list("gradients", &gradients_);
    if (!status.ok()) return status;
    std::vector<const VariableList*> lists = {&variables_};
    slots_.resize(slot_inputs.size());
    for (size_t k = 0; k < slot_inputs.size(); ++k) {
      status = slots_[k].Lookup(context, slot_inputs[k].name);
      if (!status.ok()) return status;
      lists.push_back(&slots_[k]);
      if (slot_inputs[k].is_table) {
        table_slot_ = k;
        table_ = slot_inputs[k];
        const tensorflow::Tensor* row;
        status = FindScalar(context, table_.row_input, &row);
        if (!status.ok()) return status;
        row_ = static_cast<const int64_t*>(row->data());
      }
    }
    for (const VariableList* list : lists) {
      if (list->size() != size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "`", list->name(), "` must have one variable for each of the ",
            size(), " `gradients`, got ", list->size()));
      }
    }
    if (weight_decay->NumElements() != size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`weight_decay` must have one element for each of the ", size(),
          " `variables`, got ", weight_decay->NumElements()));
    }

    status = locks_.Lock(lists);
    if (!status.ok()) return status;
    for (int i = 0; i < size(); ++i) {
      status = CheckVariable(variables_, i, tensorflow::DataTypeToEnum<T>::v(),
                             gradients_[i].shape(), "gradients");
      if (!status.ok()) return status;
      for (size_t k = 0; k < slots_.size(); ++k) {
        constexpr tensorflow::DataType kSlotType =
            tensorflow::DataTypeToEnum<Slot>::value;
        status =
            slot_inputs[k].is_table
                ? CheckTable(slots_[k], i, kSlotType, gradients_[i].shape())
                : CheckVariable(slots_[k], i, kSlotType, gradients_[i].shape(),
                                "gradients");
        if (!status.ok()) return status;
      }
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

  // One number for each variable, in the device's memory.
  const double* weight_decay() const { return weight_decay_; }

  // Which slot is a row of a table; negative if none is.
  int table_slot() const { return table_slot_; }

  // Of that slot: its input, the row's number, in the device's memory, and how
  // many rows all its tables have.
  const SlotInput& table() const { return table_; }
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
      for (int k = 0; k < kSlots; ++k) {
        tensor.slots[k] = static_cast<Slot*>(slots_[k][i]->tensor()->data());
      }
    }
    return tensors;
  }

 private:
  const double* weight_decay_ = nullptr;
  int table_slot_ = -1;
  SlotInput table_;
  const int64_t* row_ = nullptr;
  VariableList variables_;
  std::vector<VariableList> slots_;
  tensorflow::OpInputList gradients_;
  // Last, so that it unlocks before the variables are let go of.
  ScopedVariableLocks locks_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_DENSE_LAUNCH_H_
