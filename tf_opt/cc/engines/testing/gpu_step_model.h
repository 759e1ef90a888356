// A step's numbers in device memory, for tests of the GPU engines.
#ifndef TF_OPT_CC_ENGINES_TESTING_GPU_STEP_MODEL_H_
#define TF_OPT_CC_ENGINES_TESTING_GPU_STEP_MODEL_H_

#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/gpu/dense_gpu_launch.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

template <typename Description>
struct GpuStepModel {
  // Pointers into this object.
  template <typename Rule>
  GpuInputsOf<Rule> Inputs() const {
    GpuInputsOf<Rule> inputs;
    for (const auto& input : Description::kScalars) {
      inputs.scalars.Add(input, input.Address(hyperparameters));
    }
    for (const auto& input : kFrameScalars) {
      inputs.frame.Add(input, input.Address(frame));
    }
    inputs.weight_decay.at = weight_decay.data();
    inputs.learning_rate_factors = {&learning_rate_factor, true};
    inputs.gradient_factors = {&gradient_factor, true};
    inputs.variable_numbers = {&variable_number, true};
    // Numbers that the host knows.
    inputs.frame.known = frame;
    if (rows > 0) inputs.SetRow("batch_index", rows, &row);
    return inputs;
  }

  typename Description::Hyperparameters hyperparameters;
  FrameInputs frame;
  std::vector<double> weight_decay;
  double learning_rate_factor = 1, gradient_factor = 1, variable_number = 0;
  int64_t row = 0;
  int64_t rows = 0;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_GPU_STEP_MODEL_H_
