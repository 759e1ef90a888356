// From a launch to an engine on the CPU: checks the numbers and makes a rule
// for each variable.
#ifndef TF_OPT_CC_KERNELS_APPLY_ON_CPU_H_
#define TF_OPT_CC_KERNELS_APPLY_ON_CPU_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/engines/cpu/sparse_cpu.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/cpu_threads.h"
#include "tf_opt/cc/kernels/numbers.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Numbers of a step on a CPU.
template <typename Optimizer>
struct StepNumbers {
  explicit StepNumbers(const Optimizer& optimizer)
      : hyperparameters(optimizer.modes), frame(optimizer.frame) {}

  // Reads all numbers, and finds those that are data of the launch.
  template <typename Source>
  absl::Status Read(Source& source, ApplyLaunch* launch) {
    TF_RETURN_IF_ERROR(
        ReadScalars(source, Optimizer::kScalars, &hyperparameters));
    TF_RETURN_IF_ERROR(FindVectors(source, launch));
    TF_RETURN_IF_ERROR(ReadScalars(source, kFrameScalars, &frame));
    return ReadSeed(source, &frame.seed);
  }

  typename Optimizer::Hyperparameters hyperparameters;
  FrameInputs frame;
};

// Applies the rule, framed, to all variables. Of a table only `row` is read and
// written, in place.
template <typename Element, typename Rule>
absl::Status ApplyRule(const typename Rule::Step& step,
                       const FrameInputs& frame, const ApplyLaunch& launch,
                       int64_t row, const SliceAttributes& attributes,
                       const CpuThreads& threads) {
  // TensorFlow's pool threads flush denormals to zero, and a small step runs
  // on this thread: it must give the same numbers. It also keeps a moment that
  // decays towards zero from slowing the loop down a hundredfold.
  const tensorflow::port::ScopedFlushDenormal flush_denormals;
  auto tensors = launch.Tensors<Element, Rule::kSlots>();
  std::vector<FramedRule<Rule>> rules;
  rules.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    rules.emplace_back(step, frame, launch.inputs(i));
    tensors[i] = tensors[i].template AtRow<Rule>(row);
  }
  if (!attributes.sparse()) {
    ApplyDense<Element>(tensors, rules, ChosenCpuTarget(), threads.count,
                        threads.parallel_for, frame.update);
    return absl::OkStatus();
  }
  std::vector<int64_t> rows;
  for (int i = 0; i < launch.size(); ++i) {
    rows.push_back(launch.array(kVariable, i).rows);
  }
  SortedRows sorted;
  TF_RETURN_IF_ERROR(
      SortRows(launch.slices, rows, attributes, threads, &sorted));
  ApplySparse(tensors, MakeGradients<Element>(launch.slices, sorted), rules,
              attributes.lazy(), ChosenCpuTarget(), threads.count,
              threads.parallel_for, frame.update);
  return absl::OkStatus();
}

// Checks the numbers and applies the optimizer's rule. After an error nothing
// has been written.
template <typename Optimizer>
absl::Status ApplyOnCpu(const Optimizer& optimizer,
                        StepNumbers<Optimizer> numbers,
                        const ApplyLaunch& launch,
                        const SliceAttributes& attributes,
                        const CpuThreads& threads) {
  FrameInputs& frame = numbers.frame;
  if (!frame.update && !launch.has(kAccumulator)) {
    return absl::InvalidArgumentError(
        "`accumulators` must hold one variable for each gradient where "
        "`update` is false, got none");
  }
  int64_t row = 0;
  TF_RETURN_IF_ERROR(launch.CheckRow(&row));
  // After the row, because a wrong row leads to a wrong count.
  TF_RETURN_IF_ERROR(CheckRanges(Optimizer::kScalars, numbers.hyperparameters));
  TF_RETURN_IF_ERROR(CheckRanges(kFrameScalars, frame));
  TF_RETURN_IF_ERROR(launch.CheckVariableNumbers());
  frame.uses_random_bits = launch.UsesRandomBits(frame);
  return WithStorageType(launch.array(kVariable, 0).type, [&](auto element) {
    using Element = typename decltype(element)::type;
    return optimizer.template ChooseRule<ComputeType<Element>>([&](auto rule) {
      using Rule = typename decltype(rule)::type;
      return ApplyRule<Element, Rule>(
          typename Rule::Step(numbers.hyperparameters), frame, launch, row,
          attributes, threads);
    });
  });
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_APPLY_ON_CPU_H_
