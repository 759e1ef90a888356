// The GPU engine for its callers: one rule over many tensors, with the types
// and, for a framework, without; and gradients that are measured. A step makes
// the rules in one launch and updates the tensors in as few more as can
// describe them. It reads nothing back from the device, so a CUDA graph can
// capture it.
//
// Defined in files for CUDA's compiler. This header is plain C++ without names
// of CUDA: a stream is a cudaStream_t, an error is CUDA's description or null.

#ifndef TF_OPT_CC_ENGINES_GPU_APPLY_ON_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_APPLY_ON_GPU_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

template <typename Rule>
using GpuInputsOf = GpuStepInputs<typename Rule::Description>;

// Makes a Rule for each tensor from `inputs` and applies it, in the stream's
// order. `workspace` has GpuRules<Rule>::Bytes(tensors.size()) bytes of device
// memory. If a number is out of range, the device prints it and no tensor is
// written. ApplyOnGpu calls it; `used`, because tests do, too.
template <typename T, typename Rule>
__attribute__((used)) const char* ApplyDenseGpu(
    const std::vector<DenseTensor<T>>& tensors, const GpuInputsOf<Rule>& inputs,
    void* workspace, void* stream);

// Copies within the device's memory, in the stream's order.
const char* CopyOnGpu(void* to, const void* from, std::size_t bytes,
                      void* stream);

// A step of any optimizer without its types. Scalars are addresses in device
// memory.
struct GpuStep {
  StepArrays arrays;
  int variant = 0;                   // See rules/description.h.
  RuleValues values;                 // Without scalars, ...
  std::vector<const void*> scalars;  // ... which are here, in the same order.
  FrameInputs frame;                 // What the host knows of it.
  std::vector<const void*> frame_scalars;
  VariableVectors variables;
  bool has_accumulators = true;  // If false, every step must update.
  GpuLayer layer;
};

// Bytes of device memory that a step needs as workspace.
template <typename Description>
std::size_t GpuWorkspaceBytes(const GpuStep& step);

// Applies the rule, framed, to all variables, in the stream's order.
template <typename Description>
const char* ApplyOnGpu(const GpuStep& step, void* workspace, void* stream);

// What measures gradients. All pointers are to the device's memory; the results
// are one number for each tensor.
struct GpuMeasureArguments {
  const double* gradient_scale;
  const bool* enabled;  // If false, no tensor is read.
  double* sums_of_squares;
  bool* finite;
};

// Measures all tensors, in the stream's order: two launches for as many as they
// can describe. `workspace` has MeasureWorkspaceBytes(tensors) bytes of device
// memory.
template <typename T>
const char* MeasureGradientsGpu(const std::vector<MeasuredTensor<T>>& tensors,
                                const GpuMeasureArguments& arguments,
                                void* workspace, void* stream);

template <typename T>
std::size_t MeasureWorkspaceBytes(
    const std::vector<MeasuredTensor<T>>& tensors) {
  int64_t tiles = 0;
  for (const auto& tensor : tensors) tiles += CountTiles(tensor.size);
  return tiles * sizeof(Measure);
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_APPLY_ON_GPU_H_
