#include "tf_opt/cc/kernels/gpu_optimizers.h"

#include "tf_opt/cc/rules/all_rules.h"

namespace tf_opt {

GpuOptimizer GpuOptimizerOf(const std::string& rule) {
  GpuOptimizer found = {};
  ForEachRule([&](auto description) {
    using Description = typename decltype(description)::type;
    if (rule != Description::kOp) return;
    found = {GpuWorkspaceBytes<Description>, ApplyOnGpu<Description>};
  });
  return found;
}

}  // namespace tf_opt
