// The dense GPU engine for its callers: one rule over many tensors. A step
// makes the rules in one launch and updates the tensors in as few more as can
// describe them. It reads nothing back from the device, so a CUDA graph can
// capture it.
//
// Defined by apply_on_gpu-inl.h, in files for CUDA's compiler. This header is
// plain C++ without names of CUDA: a stream is a cudaStream_t, an error is
// CUDA's description or null.
#ifndef TF_OPT_CC_ENGINES_GPU_DENSE_GPU_LAUNCH_H_
#define TF_OPT_CC_ENGINES_GPU_DENSE_GPU_LAUNCH_H_

#include <cstddef>
#include <vector>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"

namespace tf_opt {

template <typename Rule>
using GpuInputsOf = GpuStepInputs<typename Rule::Description>;

// Makes a Rule for each tensor from `inputs` and applies it, in the stream's
// order. `workspace` has GpuRules<Rule>::Bytes(tensors.size()) bytes of device
// memory. If a number is out of range, the device prints it and no tensor is
// written.
template <typename T, typename Rule>
const char* ApplyDenseGpu(
    const std::vector<DenseTensor<T, Rule::kSlots>>& tensors,
    const GpuInputsOf<Rule>& inputs, void* workspace, void* stream);

// Copies within the device's memory, in the stream's order.
const char* CopyOnGpu(void* to, const void* from, std::size_t bytes,
                      void* stream);

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_DENSE_GPU_LAUNCH_H_
