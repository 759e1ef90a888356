// The CPU kernels of the resource-apply ops.
#ifndef TF_OPT_CC_KERNELS_RESOURCE_APPLY_CPU_H_
#define TF_OPT_CC_KERNELS_RESOURCE_APPLY_CPU_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/denormal.h"
#include "tf_opt/cc/engines/dense_cpu.h"
#include "tf_opt/cc/engines/sparse_cpu.h"
#include "tf_opt/cc/kernels/resource_apply_launch.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/kernels/sorted_slices.h"
#include "tf_opt/cc/kernels/worker_threads.h"
#include "tf_opt/cc/rules/step_frame.h"
#include "tf_opt/cc/rules/variable_inputs.h"

namespace tf_opt {

// T is TensorFlow's type of the variables; `Optimizer` is described in
// resource_apply_kernels.h.
template <typename T, typename Optimizer>
class ResourceApplyCpuOpBase : public tensorflow::OpKernel {
 public:
  explicit ResourceApplyCpuOpBase(tensorflow::OpKernelConstruction* context)
      : OpKernel(context), optimizer_(context) {}

 protected:
  // What an engine is given.
  template <typename Rule>
  struct Arguments {
    std::vector<
        DenseTensor<typename ResourceApplyLaunch<T>::Element, Rule::kSlots>>
        tensors;
    std::vector<FramedRule<Rule>> rules;
    bool update;
  };

  // Reads and checks all inputs, and locks; unless there is nothing to do
  // calls run(launch, arguments) with them, as Arguments<Rule>.
  template <typename Run>
  void Compute(tensorflow::OpKernelContext* context, const RowSlices* slices,
               const Run& run) const {
    FrameInputs frame = optimizer_.frame();
    OP_REQUIRES_OK(context, ReadScalars(context, kFrameScalars, &frame));
    if (!frame.enabled) return;
    auto hyperparameters = optimizer_.modes();
    OP_REQUIRES_OK(context,
                   ReadScalars(context, Optimizer::kScalars, &hyperparameters));
    ResourceApplyLaunch<T> launch;
    OP_REQUIRES_OK(context,
                   launch.Prepare(
                       context, optimizer_.slots(), frame.update,
                       [](void* to, const void* from, std::size_t bytes) {
                         std::memcpy(to, from, bytes);
                         return absl::OkStatus();
                       },
                       slices));
    OP_REQUIRES(context, frame.update || launch.has_accumulators(),
                absl::InvalidArgumentError(
                    "`accumulators` must hold one variable for each gradient "
                    "where `update` is false, got none"));
    int64_t row = 0;
    if (launch.has_table()) {
      row = ReadOnce(launch.row());
      OP_REQUIRES_OK(context, CheckRow(launch, row));
    }
    // After the row: a wrong one is what a wrong count comes from.
    OP_REQUIRES_OK(context, CheckRanges(Optimizer::kScalars, hyperparameters));
    OP_REQUIRES_OK(context, CheckRanges(kFrameScalars, frame));
    frame.uses_random_bits = launch.uses_random_bits(frame);
    OP_REQUIRES_OK(context, CheckNumbers(launch));
    optimizer_.template ChooseRule<typename ResourceApplyLaunch<T>::Slot>(
        [&](auto chosen) {
          using Rule = typename decltype(chosen)::type;
          const typename Rule::Step step(hyperparameters);
          // TensorFlow's pool threads flush denormals to zero; a small step
          // runs here. A moment that decays towards zero must not slow the
          // loop down a hundredfold, nor give other numbers on another thread.
          const tensorflow::port::ScopedFlushDenormal flush_denormals;
          run(launch, MakeArguments<Rule>(launch, row, step, frame));
        });
  }

 private:
  static absl::Status CheckRow(const ResourceApplyLaunch<T>& launch,
                               int64_t row) {
    if (row >= 0 && row < launch.rows()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "`", launch.row_input(), "` must be in [0, ", launch.rows(),
        "), the rows of `", launch.table(), "`, got ", row));
  }

  static VariableInputs OwnInputs(const ResourceApplyLaunch<T>& launch, int i) {
    return {launch.weight_decay()[i], launch.learning_rate_factors()[i],
            launch.gradient_factors()[i], launch.variable_numbers()[i]};
  }

  static absl::Status CheckNumbers(const ResourceApplyLaunch<T>& launch) {
    for (int i = 0; i < launch.size(); ++i) {
      const VariableInputs own = OwnInputs(launch, i);
      if (own.HasNumber()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "`variable_numbers` must be integers, got ", own.number));
    }
    return absl::OkStatus();
  }

  // Of a table only `row` is read and written, where it lies.
  template <typename Rule>
  static Arguments<Rule> MakeArguments(const ResourceApplyLaunch<T>& launch,
                                       int64_t row,
                                       const typename Rule::Step& step,
                                       const FrameInputs& frame) {
    Arguments<Rule> arguments = {
        launch.template Tensors<Rule::kSlots>(), {}, frame.update};
    arguments.rules.reserve(arguments.tensors.size());
    for (size_t i = 0; i < arguments.tensors.size(); ++i) {
      arguments.rules.emplace_back(step, frame, OwnInputs(launch, i));
      arguments.tensors[i] = arguments.tensors[i].template AtRow<Rule>(row);
    }
    return arguments;
  }

  const Optimizer optimizer_;
};

// Applies the rule, framed, to each variable, on TensorFlow's intra-op threads.
template <typename T, typename Optimizer>
class ResourceApplyCpuOp : public ResourceApplyCpuOpBase<T, Optimizer> {
 public:
  using ResourceApplyCpuOpBase<T, Optimizer>::ResourceApplyCpuOpBase;

  void Compute(tensorflow::OpKernelContext* context) override {
    const auto run = [context](const auto& launch, const auto& arguments) {
      const WorkerThreads workers(context);
      ApplyDense<typename ResourceApplyLaunch<T>::Element>(
          arguments.tensors, arguments.rules, ChosenCpuTarget(),
          workers.count(), workers.parallel_for(), arguments.update);
    };
    ResourceApplyCpuOpBase<T, Optimizer>::Compute(context, nullptr, run);
  }
};

// The same where gradients are sparse.
template <typename T, typename Optimizer>
class ResourceSparseApplyCpuOp : public ResourceApplyCpuOpBase<T, Optimizer> {
 public:
  explicit ResourceSparseApplyCpuOp(tensorflow::OpKernelConstruction* context)
      : ResourceApplyCpuOpBase<T, Optimizer>(context), attributes_(context) {}

  void Compute(tensorflow::OpKernelContext* context) override {
    RowSlices slices(attributes_);
    OP_REQUIRES_OK(context, slices.Find(context));
    const auto run = [&](const auto& launch, const auto& arguments) {
      const WorkerThreads workers(context);
      std::vector<SparseGradient<typename ResourceApplyLaunch<T>::Element>>
          gradients;
      OP_REQUIRES_OK(context,
                     SortSlices(
                         slices, [&](int i) { return launch.variable_rows(i); },
                         workers.count(), workers.parallel_for(), &gradients));
      ApplySparse(arguments.tensors, gradients, arguments.rules,
                  attributes_.lazy, ChosenCpuTarget(), workers.count(),
                  workers.parallel_for(), arguments.update);
    };
    ResourceApplyCpuOpBase<T, Optimizer>::Compute(context, &slices, run);
  }

 private:
  const SliceAttributes attributes_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_RESOURCE_APPLY_CPU_H_
