#include "tests/gpu/engine.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "tf_opt/cc/engines/dense_gpu.h"
#include "tf_opt/cc/engines/dense_gpu_launch.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/asgd.h"
#include "tf_opt/cc/rules/averaged_sgd.h"
#include "tf_opt/cc/rules/nadam.h"

namespace tf_opt {
namespace {

template <typename T, typename Rule>
std::vector<DenseTensor<T, Rule::kSlots>> TensorsOf(const TfOptStep& step) {
  std::vector<DenseTensor<T, Rule::kSlots>> tensors(step.count);
  for (int64_t i = 0; i < step.count; ++i) {
    tensors[i].operands[kVariable] = step.variables[i];
    tensors[i].operands[kGradient] = const_cast<void*>(step.gradients[i]);
    for (int k = 0; k < Rule::kSlots; ++k) {
      tensors[i].operands[kFrameOperandCount + k] =
          step.slots[k * step.count + i];
    }
    tensors[i].size = step.sizes[i];
  }
  return tensors;
}

// Calls use(description, T(), rule's tag) with what a step names. Returns false
// if there is no such step.
template <typename T, typename Use>
bool ChooseRule(const TfOptStep& step, const Use& use) {
  using V = ComputeType<T>;
  const auto use_rule = [&](auto description) {
    return [&use, description](auto rule) { use(description, T(), rule); };
  };
  if (!std::strcmp(step.optimizer, "adam")) {
    Adam::ChooseRule<V>(step.amsgrad, step.l2, use_rule(Adam()));
    return true;
  }
  if (step.amsgrad || step.epsilon_hat) return false;
  if (!std::strcmp(step.optimizer, "nadam")) {
    NAdam::ChooseRule<V>(step.l2, use_rule(NAdam()));
  } else if (!std::strcmp(step.optimizer, "asgd")) {
    Asgd::ChooseRule<V>(step.l2, use_rule(Asgd()));
  } else if (!std::strcmp(step.optimizer, "averaged_sgd")) {
    AveragedSgd::ChooseRule<V>(step.l2, use_rule(AveragedSgd()));
  } else {
    return false;
  }
  return true;
}

template <typename Use>
bool Choose(const TfOptStep& step, const Use& use) {
  if (!std::strcmp(step.dtype, "float16")) return ChooseRule<Half>(step, use);
  if (!std::strcmp(step.dtype, "bfloat16")) {
    return ChooseRule<BFloat16>(step, use);
  }
  if (!std::strcmp(step.dtype, "float32")) return ChooseRule<float>(step, use);
  if (!std::strcmp(step.dtype, "float64")) return ChooseRule<double>(step, use);
  return false;
}

void SetModes(const TfOptStep& step, AdamHyperparameters* modes) {
  modes->maximize = step.maximize;
  modes->epsilon_hat = step.epsilon_hat;
}

template <typename Hyperparameters>
void SetModes(const TfOptStep& step, Hyperparameters* modes) {
  modes->maximize = step.maximize;
}

}  // namespace
}  // namespace tf_opt

extern "C" {

int64_t TfOptWorkspaceBytes(const TfOptStep* step) {
  int64_t bytes = -1;
  tf_opt::Choose(*step, [&](auto description, auto, auto chosen) {
    using Rule = typename decltype(chosen)::type;
    bytes = tf_opt::GpuRules<Rule>::Bytes(step->count);
  });
  return bytes;
}

int64_t TfOptLaunches(const TfOptStep* step) {
  int64_t launches = -1;
  tf_opt::Choose(*step, [&](auto description, auto type, auto chosen) {
    using Rule = typename decltype(chosen)::type;
    launches = 1;  // That makes the rules.
    for (const auto& batch : tf_opt::PlanGpuBatches(
             tf_opt::TensorsOf<decltype(type), Rule>(*step))) {
      launches += batch.tiles() > 0;
    }
  });
  return launches;
}

const char* TfOptApply(const TfOptStep* step, void* stream) {
  const char* error = nullptr;
  const bool found =
      tf_opt::Choose(*step, [&](auto description, auto type, auto chosen) {
        using Rule = typename decltype(chosen)::type;
        tf_opt::GpuInputsOf<Rule> inputs;
        tf_opt::SetModes(*step, &inputs.scalars.known);
        const void* const* at = step->scalars;
        for (const auto& input : decltype(description)::kScalars) {
          inputs.scalars.Add(input, *at++);
        }
        inputs.weight_decay.at = step->weight_decay;
        if (step->row != nullptr) {
          inputs.SetRow("batch_index", step->rows, step->row);
        }
        error = tf_opt::ApplyDenseGpu<decltype(type), Rule>(
            tf_opt::TensorsOf<decltype(type), Rule>(*step), inputs,
            step->workspace, stream);
      });
  return found ? error : "there is no such optimizer, mode or dtype";
}

}  // extern "C"
