// The kernels of the resource-apply ops for GPUs. Only handles and the seed are
// on the host: a step's other numbers stay in device memory, so that a step
// never waits.
#include <cstddef>
#include <string>
#include <utility>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/gpu_kernel.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/rules/all_rules.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace {

// The engine's step of the rule with this op.
absl::Status Apply(const std::string& op, const GpuStep& step,
                   const GpuQueue& queue) {
  absl::Status status;
  ForEachRule([&](auto rule) {
    using Description = typename decltype(rule)::type;
    if (op != Description::kOp) return;
    status = CudaStatus(ApplyOnGpu<Description>(step, queue));
  });
  return status;
}

class ApplyOnGpuOp : public ApplyKernel {
 public:
  using ApplyKernel::ApplyKernel;

 private:
  absl::Status Run(tensorflow::OpKernelContext* context) override {
    ApplyLaunch launch(attributes_);
    TF_RETURN_IF_ERROR(launch.FindNumbers(context));
    if (launch.has_number_variables()) {
      return absl::InvalidArgumentError(
          "`counter` and `rate` must be empty on a GPU");
    }
    tensorflow::Tensor workspace;
    const GpuQueue queue = QueueOf(context, &workspace);
    TF_RETURN_IF_ERROR(
        // Only the device knows whether the step updates.
        launch.Prepare(context, /*updates=*/true,
                       [&](void* to, const void* from, std::size_t bytes) {
                         return CudaStatus(
                             CopyOnGpu(to, from, bytes, queue.stream));
                       }));
    // The device takes the layer.
    launch.AddArrays(/*layer=*/0);
    GpuStep step{std::move(launch.step)};
    if (step.rows.sparse) TF_RETURN_IF_ERROR(CheckCounts(step.slices));
    TF_RETURN_IF_ERROR(report_.Open(
        context,
        [&](const Refusal& refusal) { return launch.ErrorOf(refusal); },
        &step.report));
    return Apply(attributes_.optimizer->rule.op, step, queue);
  }

  GpuReport report_;
};

[[maybe_unused]] const bool apply_is_registered =
    RegisterApplyKernels<ApplyOnGpuOp>();

}  // namespace
}  // namespace tf_opt
