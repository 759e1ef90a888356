// The CPU kernel of the resource-apply ops.
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
#include "tf_opt/cc/kernels/dense_launch.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/kernels/worker_threads.h"
#include "tf_opt/cc/rules/step_frame.h"
#include "tf_opt/cc/rules/variable_inputs.h"

namespace tf_opt {

// T is TensorFlow's type of the variables; `Optimizer` is described in
// resource_apply_kernels.h.
template <typename T, typename Optimizer>
class ResourceApplyCpuOp : public tensorflow::OpKernel {
 public:
  explicit ResourceApplyCpuOp(tensorflow::OpKernelConstruction* context)
      : OpKernel(context), optimizer_(context) {}

  void Compute(tensorflow::OpKernelContext* context) override {
    FrameInputs frame;
    OP_REQUIRES_OK(context, ReadScalars(context, kFrameScalars, &frame));
    if (!frame.enabled) return;
    auto hyperparameters = optimizer_.modes();
    OP_REQUIRES_OK(context,
                   ReadScalars(context, Optimizer::kScalars, &hyperparameters));
    DenseLaunch<T> launch;
    OP_REQUIRES_OK(
        context,
        launch.Prepare(context, optimizer_.slots(), frame.update,
                       [](void* to, const void* from, std::size_t bytes) {
                         std::memcpy(to, from, bytes);
                         return absl::OkStatus();
                       }));
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
    optimizer_.template ChooseRule<typename DenseLaunch<T>::Slot>(
        [&](auto chosen) {
          using Rule = typename decltype(chosen)::type;
          Run<Rule>(context, launch, row, typename Rule::Step(hyperparameters),
                    frame);
        });
  }

 private:
  static absl::Status CheckRow(const DenseLaunch<T>& launch, int64_t row) {
    if (row >= 0 && row < launch.rows()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "`", launch.row_input(), "` must be in [0, ", launch.rows(),
        "), the rows of `", launch.table(), "`, got ", row));
  }

  // Applies the rule, framed, to each variable, on TensorFlow's intra-op
  // threads. Of a table only `row` is read and written, where it lies.
  template <typename Rule>
  static void Run(tensorflow::OpKernelContext* context,
                  const DenseLaunch<T>& launch, int64_t row,
                  const typename Rule::Step& step, const FrameInputs& frame) {
    auto tensors = launch.template Tensors<Rule::kSlots>();
    std::vector<FramedRule<Rule>> rules;
    rules.reserve(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const VariableInputs own = {launch.weight_decay()[i],
                                  launch.learning_rate_factors()[i],
                                  launch.gradient_factors()[i]};
      rules.emplace_back(step, frame, own);
      tensors[i] = tensors[i].template AtRow<Rule>(row);
    }
    // TensorFlow's pool threads flush denormals to zero; a small step runs
    // here. A moment that decays towards zero must not slow the loop down a
    // hundredfold, nor give other numbers on another thread.
    const tensorflow::port::ScopedFlushDenormal flush_denormals;
    const WorkerThreads workers(context);
    ApplyDense<typename DenseLaunch<T>::Element>(
        tensors, rules, ChosenCpuTarget(), workers.count(),
        workers.parallel_for(), frame.update);
  }

  const Optimizer optimizer_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_RESOURCE_APPLY_CPU_H_
