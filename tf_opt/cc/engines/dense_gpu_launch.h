// The dense GPU engine as its callers see it: one rule over many tensors, in
// one launch that makes the rules and as few as it takes to describe the
// tensors. Nothing is read back from the device, so a step can be captured in a
// CUDA graph.
//
// Defined by dense_gpu_launch-inl.h, in files that CUDA's compiler compiles.
// Here is plain C++, and no name of CUDA's: a stream is a cudaStream_t, an
// error CUDA's description of it, or null where there was none.
#ifndef TF_OPT_CC_ENGINES_DENSE_GPU_LAUNCH_H_
#define TF_OPT_CC_ENGINES_DENSE_GPU_LAUNCH_H_

#include <cstddef>
#include <vector>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/gpu_rules.h"

namespace tf_opt {

template <typename Rule>
using GpuInputsOf = GpuStepInputs<typename Rule::Step::Hyperparameters>;

// Makes a Rule for each tensor out of `inputs` and applies it, in the stream's
// order. `workspace` are GpuRules<Rule>::Bytes(tensors.size()) of the device's
// memory. If a number is out of its range nothing is written to the tensors,
// and the device prints which.
template <typename T, typename Rule>
const char* ApplyDenseGpu(
    const std::vector<DenseTensor<T, Rule::kSlots>>& tensors,
    const GpuInputsOf<Rule>& inputs, void* workspace, void* stream);

// Copies within the device's memory, in the stream's order.
const char* CopyOnGpu(void* to, const void* from, std::size_t bytes,
                      void* stream);

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_DENSE_GPU_LAUNCH_H_
