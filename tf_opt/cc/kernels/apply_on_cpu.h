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
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// The arguments of an engine.
template <typename Element, typename Rule>
struct CpuArguments {
  std::vector<DenseTensor<Element, Rule::kSlots>> tensors;
  std::vector<FramedRule<Rule>> rules;
  bool update;
};

// Of a table only `row` is read and written, in place.
template <typename Element, typename Rule>
CpuArguments<Element, Rule> MakeArguments(const ApplyLaunch& launch,
                                          int64_t row,
                                          const typename Rule::Step& step,
                                          const FrameInputs& frame) {
  CpuArguments<Element, Rule> arguments = {
      launch.Tensors<Element, Rule::kSlots>(), {}, frame.update};
  arguments.rules.reserve(arguments.tensors.size());
  for (std::size_t i = 0; i < arguments.tensors.size(); ++i) {
    arguments.rules.emplace_back(step, frame, launch.inputs(i));
    arguments.tensors[i] = arguments.tensors[i].template AtRow<Rule>(row);
  }
  return arguments;
}

// Checks the numbers of a launch for variables of type Element and calls
// run(arguments) with CpuArguments. After an error nothing has been written.
template <typename Element, typename Optimizer, typename Run>
absl::Status RunOnCpu(
    const Optimizer& optimizer, const ApplyLaunch& launch,
    const typename Optimizer::Hyperparameters& hyperparameters,
    FrameInputs frame, const Run& run) {
  if (!frame.update && !launch.has(kAccumulator)) {
    return absl::InvalidArgumentError(
        "`accumulators` must hold one variable for each gradient where "
        "`update` is false, got none");
  }
  int64_t row = 0;
  TF_RETURN_IF_ERROR(launch.CheckRow(&row));
  // After the row, because a wrong row leads to a wrong count.
  TF_RETURN_IF_ERROR(CheckRanges(Optimizer::kScalars, hyperparameters));
  TF_RETURN_IF_ERROR(CheckRanges(kFrameScalars, frame));
  TF_RETURN_IF_ERROR(launch.CheckVariableNumbers());
  frame.uses_random_bits = launch.UsesRandomBits(frame);
  optimizer.template ChooseRule<ComputeType<Element>>([&](auto chosen) {
    using Rule = typename decltype(chosen)::type;
    const typename Rule::Step step(hyperparameters);
    // TensorFlow's pool threads flush denormals to zero, and a small step runs
    // on this thread: it must give the same numbers. It also keeps a moment
    // that decays towards zero from slowing the loop down a hundredfold.
    const tensorflow::port::ScopedFlushDenormal flush_denormals;
    run(MakeArguments<Element, Rule>(launch, row, step, frame));
  });
  return absl::OkStatus();
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_APPLY_ON_CPU_H_
