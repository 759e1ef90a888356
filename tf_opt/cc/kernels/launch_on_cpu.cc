// The kernels of the resource-apply ops for CPUs.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace {

absl::Status CopyOnCpu(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  return absl::OkStatus();
}

void ReadFrame(Step* step) {
  for (std::size_t k = 0; k < std::size(kFrameScalars); ++k) {
    kFrameScalars[k].Read(step->frame_scalars[k], &step->frame);
  }
}

// Reads the rule's numbers that all variables share.
void ReadNumbers(const RuleInfo& rule, Step* step) {
  for (std::size_t k = 0; k < rule.scalars.size(); ++k) {
    rule.scalars[k].Read(step->scalars[k], step->numbers.data());
  }
}

// Checks the numbers that all variables share.
Refusal CheckNumbers(const RuleInfo& rule, const Step& step, int64_t layer) {
  Refusal refusal;
  // First, because a wrong layer leads to a wrong count.
  CheckLayer(step.layer, layer, step.has_accumulators || step.rows.waits,
             step.frame, &refusal);
  CheckRanges(rule.scalars.data(), rule.scalars.size(), step.numbers.data(),
              Refusal::kScalar, &refusal);
  CheckRanges(kFrameScalars, std::size(kFrameScalars), &step.frame,
              Refusal::kFrameScalar, &refusal);
  return refusal;
}

// Checks the numbers of each variable and adds them to the step.
absl::Status AddVariables(CpuStep* step) {
  const int count = step->arrays.count();
  step->own.reserve(count);
  for (int i = 0; i < count; ++i) {
    const VariableInputs own = step->variables[i];
    if (!own.HasNumber()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`variable_numbers` must be integers in [-2^53, 2^53], got ",
          own.number));
    }
    if (step->rows.waits && !step->frame.decoupled_weight_decay &&
        own.weight_decay != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("`weight_decay` must be 0 where rows wait (`since`) and "
                       "`decoupled_weight_decay` is false, got ",
                       own.weight_decay));
    }
    step->own.push_back(own);
  }
  return absl::OkStatus();
}

class ApplyOnCpuOp : public ApplyKernel {
 public:
  using ApplyKernel::ApplyKernel;

 private:
  absl::Status Run(tensorflow::OpKernelContext* context) override {
    ApplyLaunch launch(attributes_);
    TF_RETURN_IF_ERROR(launch.FindNumbers(context));
    const RuleInfo& rule = attributes_.optimizer->rule;
    FrameInputs& frame = launch.step.frame;
    ReadFrame(&launch.step);
    if (!frame.enabled) return absl::OkStatus();
    TF_RETURN_IF_ERROR(launch.Prepare(context, frame.update, CopyOnCpu));
    ReadNumbers(rule, &launch.step);
    const int64_t* const at = launch.step.layer.at;
    const int64_t layer = at == nullptr ? 0 : ReadOnce(at);
    const Refusal refusal = CheckNumbers(rule, launch.step, layer);
    if (refusal.kind != Refusal::kNone) return launch.ErrorOf(refusal);
    launch.AddArrays(layer);
    CpuStep step{std::move(launch.step)};
    TF_RETURN_IF_ERROR(AddVariables(&step));
    // TensorFlow's pool threads flush denormals to zero, and a small step runs
    // on this thread: it must give the same numbers. It also keeps a moment
    // that decays towards zero from slowing the loop down a hundredfold.
    const tensorflow::port::ScopedFlushDenormal flush_denormals;
    step.threads = ThreadsOf(context);
    tensorflow::Tensor sorted_rows;
    if (step.rows.sparse) {
      TF_RETURN_IF_ERROR(SortRows(step.slices, attributes_.tables, step.threads,
                                  &sorted_rows, &step.gradients));
    }
    ApplyOnCpu(step, attributes_.optimizer->makers);
    launch.Count();
    return absl::OkStatus();
  }
};

[[maybe_unused]] const bool apply_is_registered =
    RegisterApplyKernels<ApplyOnCpuOp>();

}  // namespace
}  // namespace tf_opt
