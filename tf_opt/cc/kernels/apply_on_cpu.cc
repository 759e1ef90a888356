#include "tf_opt/cc/kernels/apply_on_cpu.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

absl::Status ApplyOnCpu(const ApplyAttributes& attributes,
                        const StepNumbers& numbers, const ApplyLaunch& launch,
                        const CpuThreads& threads) {
  const bool waits = launch.has(launch.since());
  if (!numbers.frame.update && !launch.has(kAccumulator) && !waits) {
    return absl::InvalidArgumentError(
        "`accumulators` must hold one variable for each gradient where "
        "`update` is false, got none");
  }
  CpuStep step;
  TF_RETURN_IF_ERROR(launch.CheckRow(&step.row));
  // After the row, because a wrong row leads to a wrong count.
  TF_RETURN_IF_ERROR(numbers.CheckRanges(attributes.optimizer->rule));
  TF_RETURN_IF_ERROR(launch.CheckVariableNumbers());
  TF_RETURN_IF_ERROR(launch.GetArrays(&step.arrays));
  // TensorFlow's pool threads flush denormals to zero, and a small step runs
  // on this thread: it must give the same numbers. It also keeps a moment that
  // decays towards zero from slowing the loop down a hundredfold.
  const tensorflow::port::ScopedFlushDenormal flush_denormals;
  step.variant = attributes.variant;
  step.values = numbers.values;
  step.frame = numbers.frame;
  step.frame.uses_random_bits = launch.UsesRandomBits(numbers.frame);
  step.sparse = attributes.slices.sparse();
  step.lazy = attributes.slices.lazy();
  step.threads = threads.count;
  step.parallel_for = threads.parallel_for;
  step.variables.reserve(launch.size());
  for (int i = 0; i < launch.size(); ++i) {
    step.variables.push_back(launch.inputs(i));
    if (waits && attributes.l2_decay && step.variables[i].weight_decay != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("`weight_decay` must be 0 where rows wait (`since`) and "
                       "`decoupled_weight_decay` is false, got ",
                       step.variables[i].weight_decay));
    }
  }
  SortedRows sorted;
  if (step.sparse) {
    std::vector<int64_t> rows;
    for (int i = 0; i < launch.size(); ++i) {
      rows.push_back(launch.array(kVariable, i).rows);
    }
    TF_RETURN_IF_ERROR(
        SortRows(launch.slices, rows, attributes.slices, threads, &sorted));
    for (int i = 0; i < launch.size(); ++i) {
      const LaunchArray& values = launch.slices[i].values;
      step.slices.push_back({values.data, values.width, sorted.tables[i]});
    }
  }
  // While gradients are accumulated, rows go on waiting.
  if (waits && (numbers.frame.update || !launch.has(kAccumulator))) {
    step.waiting = launch.waiting_rows();
  }
  attributes.optimizer->apply_on_cpu(step);
  return absl::OkStatus();
}

}  // namespace tf_opt
