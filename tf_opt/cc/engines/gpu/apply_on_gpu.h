// A step of any optimizer on a GPU without its types: what a framework calls.
// See dense_gpu_launch.h for streams and errors.
#ifndef TF_OPT_CC_ENGINES_GPU_APPLY_ON_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_APPLY_ON_GPU_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/rules/rule_info.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Scalars are addresses in device memory.
struct GpuStep {
  StepArrays arrays;
  int variant = 0;                   // See rules/description.h.
  RuleValues values;                 // Without scalars, ...
  std::vector<const void*> scalars;  // ... which are here, in the same order.
  FrameInputs frame;                 // What the host knows of it.
  std::vector<const void*> frame_scalars;
  GpuVectors variables;
  bool has_accumulators = true;  // If false, every step must update.
  GpuRow row;
};

// Bytes of device memory that a step needs as workspace.
template <typename Description>
std::size_t GpuWorkspaceBytes(const GpuStep& step);

// Applies the rule, framed, to all variables, in the stream's order.
template <typename Description>
const char* ApplyOnGpu(const GpuStep& step, void* workspace, void* stream);

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_APPLY_ON_GPU_H_
