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

// The inputs `variables`, `gradients` and the slot lists of a resource-apply
// op: looked up, locked, checked and safe to write. T is TensorFlow's type.
template <typename T>
class DenseLaunch {
 public:
  using Storage = typename StorageTypeOf<T>::type;
  using Slot = ComputeType<Storage>;

  // After an error nothing has been written and nothing may be launched.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       const std::vector<std::string>& slot_names) {
    absl::Status status = variables_.Lookup(context, "variables");
    if (!status.ok()) return status;
    status = context->input_list("gradients", &gradients_);
    if (!status.ok()) return status;
    std::vector<const VariableList*> lists = {&variables_};
    slots_.resize(slot_names.size());
    for (size_t k = 0; k < slot_names.size(); ++k) {
      status = slots_[k].Lookup(context, slot_names[k]);
      if (!status.ok()) return status;
      lists.push_back(&slots_[k]);
    }
    for (const VariableList* list : lists) {
      if (list->size() != gradients_.size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "`", list->name(), "` must have one variable for each of the ",
            gradients_.size(), " `gradients`, got ", list->size()));
      }
    }

    status = locks_.Lock(lists);
    if (!status.ok()) return status;
    for (int i = 0; i < gradients_.size(); ++i) {
      status = CheckVariable(variables_, i, tensorflow::DataTypeToEnum<T>::v(),
                             gradients_[i].shape(), "gradients");
      if (!status.ok()) return status;
      for (const VariableList& slot : slots_) {
        status = CheckVariable(slot, i, tensorflow::DataTypeToEnum<Slot>::v(),
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

  int size() const { return gradients_.size(); }

  // Applies rules[i] to the i-th variable, on TensorFlow's intra-op threads.
  template <typename Rule>
  void Run(tensorflow::OpKernelContext* context,
           const std::vector<Rule>& rules) {
    std::vector<DenseTensor<Storage, Rule::kSlots>> tensors(size());
    for (int i = 0; i < size(); ++i) {
      auto& tensor = tensors[i];
      tensor.variable = static_cast<Storage*>(variables_[i]->tensor()->data());
      tensor.gradient = static_cast<const Storage*>(gradients_[i].data());
      for (int k = 0; k < Rule::kSlots; ++k) {
        tensor.slots[k] = static_cast<Slot*>(slots_[k][i]->tensor()->data());
      }
      tensor.size = gradients_[i].NumElements();
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
  VariableList variables_;
  std::vector<VariableList> slots_;
  tensorflow::OpInputList gradients_;
  // Last, so that it unlocks before the variables are let go of.
  ScopedVariableLocks locks_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_DENSE_LAUNCH_H_
