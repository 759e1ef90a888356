// A dense launch on the CPU: from an op's inputs to the engine's arguments.
#ifndef TF_OPT_CC_KERNELS_DENSE_LAUNCH_H_
#define TF_OPT_CC_KERNELS_DENSE_LAUNCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tf_opt/cc/engines/dense_cpu.h"
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
  SlotInput(const char* name) : name(name) {}
  SlotInput(const char* name, int64_t row)
      : name(name), is_table(true), row(row) {}

  std::string name;
  bool is_table = false;
  int64_t row = 0;
};

// The inputs `variables`, `gradients`, `weight_decay` and the slot lists of a
// resource-apply op: looked up, locked, checked and safe to write. T is
// TensorFlow's type.
template <typename T>
class DenseLaunch {
 public:
  using Storage = typename StorageTypeOf<T>::type;
  using Slot = ComputeType<Storage>;

  // After an error nothing has been written and nothing may be launched.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       const std::vector<SlotInput>& slot_inputs) {
    slot_inputs_ = slot_inputs;
    absl::Status status = ReadVector(context, "weight_decay", &weight_decay_);
    if (!status.ok()) return status;
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
    }
    for (const VariableList* list : lists) {
      if (list->size() != size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "`", list->name(), "` must have one variable for each of the ",
            size(), " `gradients`, got ", list->size()));
      }
    }
    if (static_cast<int>(weight_decay_.size()) != size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("`weight_decay` must have one element for each of the ",
                       size(), " `variables`, got ", weight_decay_.size()));
    }

    status = locks_.Lock(lists);
    if (!status.ok()) return status;
    for (int i = 0; i < size(); ++i) {
      status = CheckVariable(variables_, i, tensorflow::DataTypeToEnum<T>::v(),
                             gradients_[i].shape(), "gradients");
      if (!status.ok()) return status;
      for (size_t k = 0; k < slots_.size(); ++k) {
        constexpr tensorflow::DataType kSlotType =
            tensorflow::DataTypeToEnum<Slot>::v();
        status = slot_inputs[k].is_table
                     ? CheckTable(slots_[k], i, kSlotType,
                                  gradients_[i].shape(), slot_inputs[k].row)
                     : CheckVariable(slots_[k], i, kSlotType,
                                     gradients_[i].shape(), "gradients");
        if (!status.ok()) return status;
      }
    }
    for (const VariableList* list : lists) {
      for (int i = 0; i < list->size(); ++i) {
        status = MakeExclusive(context, (*list)[i]);
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  // Applies Rule(step, weight decay) to each variable, on TensorFlow's intra-op
  // threads.
  template <typename Rule, typename Step>
  void Run(tensorflow::OpKernelContext* context, const Step& step) {
    std::vector<Rule> rules;
    rules.reserve(size());
    std::vector<DenseTensor<Storage, Rule::kSlots>> tensors(size());
    for (int i = 0; i < size(); ++i) {
      rules.emplace_back(step, weight_decay_[i]);
      auto& tensor = tensors[i];
      tensor.size = gradients_[i].NumElements();
      tensor.variable = static_cast<Storage*>(variables_[i]->tensor()->data());
      tensor.gradient = static_cast<const Storage*>(gradients_[i].data());
      for (int k = 0; k < Rule::kSlots; ++k) {
        tensor.slots[k] = static_cast<Slot*>(slots_[k][i]->tensor()->data()) +
                          slot_inputs_[k].row * tensor.size;
      }
    }
    // TensorFlow's pool threads flush denormals to zero; a small step runs
    // here. A moment that decays towards zero must not slow the loop down a
    // hundredfold, nor give other numbers on another thread.
    const tensorflow::port::ScopedFlushDenormal flush_denormals;
    const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
    ApplyDense<Storage>(
        tensors, rules, ChosenCpuTarget(), workers.num_threads,
        [&workers](int64_t total, int64_t block_size,
                   const std::function<void(int64_t, int64_t)>& body) {
          workers.workers->ParallelFor(
              total,
              tensorflow::thread::ThreadPool::SchedulingParams::Fixed(
                  block_size),
              body);
        });
  }

 private:
  int size() const { return gradients_.size(); }

  std::vector<SlotInput> slot_inputs_;
  std::vector<double> weight_decay_;
  VariableList variables_;
  std::vector<VariableList> slots_;
  tensorflow::OpInputList gradients_;
  // Last, so that it unlocks before the variables are let go of.
  ScopedVariableLocks locks_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_DENSE_LAUNCH_H_
