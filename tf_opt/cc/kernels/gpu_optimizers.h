// The optimizers on a GPU, or an emulated one.
#ifndef TF_OPT_CC_KERNELS_GPU_OPTIMIZERS_H_
#define TF_OPT_CC_KERNELS_GPU_OPTIMIZERS_H_

#include <cstddef>
#include <string>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"

namespace tf_opt {

struct GpuOptimizer {
  std::size_t (*workspace_bytes)(const GpuStep& step);
  const char* (*apply)(const GpuStep& step, void* workspace, void* stream);
};

// Returns that of a rule (RuleInfo::op).
GpuOptimizer GpuOptimizerOf(const std::string& rule);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_GPU_OPTIMIZERS_H_
