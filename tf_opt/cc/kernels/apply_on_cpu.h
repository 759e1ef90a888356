// From a launch's numbers to an engine on the CPU: checked, and a rule made for
// each variable.
#ifndef TF_OPT_CC_KERNELS_APPLY_ON_CPU_H_
#define TF_OPT_CC_KERNELS_APPLY_ON_CPU_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"
#include "tf_opt/cc/rules/variable_inputs.h"

namespace tf_opt {

// What an engine is given.
template <typename Element, typename Rule>
struct CpuArguments {
  std::vector<DenseTensor<Element, Rule::kSlots>> tensors;
  std::vector<FramedRule<Rule>> rules;
  bool update;
};

template <typename Launch>
VariableInputs OwnInputs(const Launch& launch, int i) {
  return {launch.weight_decay()[i], launch.learning_rate_factors()[i],
          launch.gradient_factors()[i], launch.variable_numbers()[i]};
}

template <typename Launch>
absl::Status CheckRow(const Launch& launch, int64_t row) {
  const bool is_there = row >= 0 && row < launch.rows();
  return is_there ? absl::OkStatus() : launch.NoRow(row);
}

// All numbers, also where a launch is only a part of one: nothing may be
// written before all of it is known to be right.
template <typename Launch>
absl::Status CheckNumbers(const Launch& launch) {
  const auto& numbers = launch.variable_numbers();
  for (int64_t k = 0; k < numbers.count; ++k) {
    VariableInputs own;
    own.number = ReadOnce(numbers.numbers + k);
    if (!own.HasNumber()) return launch.NoVariableNumber(own.number);
  }
  return absl::OkStatus();
}

// Of a table only `row` is read and written, where it lies.
template <typename Rule, typename Launch>
CpuArguments<typename Launch::Element, Rule> MakeArguments(
    const Launch& launch, int64_t row, const typename Rule::Step& step,
    const FrameInputs& frame) {
  CpuArguments<typename Launch::Element, Rule> arguments = {
      launch.template Tensors<Rule::kSlots>(), {}, frame.update};
  arguments.rules.reserve(arguments.tensors.size());
  for (std::size_t i = 0; i < arguments.tensors.size(); ++i) {
    arguments.rules.emplace_back(step, frame, OwnInputs(launch, i));
    arguments.tensors[i] = arguments.tensors[i].template AtRow<Rule>(row);
  }
  return arguments;
}

// Checks the numbers of a launch that is an ApplyLaunch and calls
// run(arguments), as CpuArguments. After an error nothing has been written.
template <typename Optimizer, typename Launch, typename Run>
absl::Status RunOnCpu(
    const Optimizer& optimizer, const Launch& launch,
    const typename Optimizer::Hyperparameters& hyperparameters,
    FrameInputs frame, const Run& run) {
  if (!frame.update && !launch.has_accumulators()) {
    return launch.NoAccumulators();
  }
  int64_t row = 0;
  if (launch.has_table()) {
    row = ReadOnce(launch.row());
    TF_RETURN_IF_ERROR(CheckRow(launch, row));
  }
  // After the row: a wrong one is what a wrong count comes from.
  TF_RETURN_IF_ERROR(CheckRanges(Optimizer::kScalars, hyperparameters));
  TF_RETURN_IF_ERROR(CheckRanges(kFrameScalars, frame));
  frame.uses_random_bits = launch.uses_random_bits(frame);
  TF_RETURN_IF_ERROR(CheckNumbers(launch));
  optimizer.template ChooseRule<typename Launch::Slot>([&](auto chosen) {
    using Rule = typename decltype(chosen)::type;
    const typename Rule::Step step(hyperparameters);
    // TensorFlow's pool threads flush denormals to zero; a small step runs
    // here. A moment that decays towards zero must not slow the loop down a
    // hundredfold, nor give other numbers on another thread.
    const tensorflow::port::ScopedFlushDenormal flush_denormals;
    run(MakeArguments<Rule>(launch, row, step, frame));
  });
  return absl::OkStatus();
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_APPLY_ON_CPU_H_
