// The GPU engine for its callers: one rule over many tensors, with the types
// and, for a framework, without; and gradients that are measured or merged. A
// step makes the rules in one launch and updates the tensors in as few more as
// can describe them. It reads nothing back from the device, so a CUDA graph can
// capture it.
//
// Defined in files for CUDA's compiler. This header is plain C++ without names
// of CUDA: a stream is a cudaStream_t, an error is CUDA's description or null.

#ifndef TF_OPT_CC_ENGINES_GPU_APPLY_ON_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_APPLY_ON_GPU_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Where work is done in order: a stream, and device memory, aligned for any
// number, that no other work has before it is done. The engine takes it once.
struct GpuQueue {
  void* stream;
  std::function<void*(std::size_t bytes)> allocate;  // Or throws bad_alloc.
};

// Why the kernels can't run on a GPU, in CUDA's words; null if they can. May
// leave the thread with this GPU as its device.
const char* GpuProblem(int device);

// Finds the address that a device has for memory of the host that it can write.
const char* AddressOnGpu(void* host, void** address);

// Copies within the device's memory, in the stream's order.
const char* CopyOnGpu(void* to, const void* from, std::size_t bytes,
                      void* stream);

struct GpuStep : Step {
  Refusal* report = nullptr;  // Where the device and the host see it.
};

// Makes the rule of each variable and applies it, framed. If a number is out of
// its range or a row outside of its table, only the report is written.
template <typename Description>
const char* ApplyOnGpu(const GpuStep& step, const GpuQueue& queue);

// Measures all tensors: two launches for as many as they can describe.
template <typename T>
const char* MeasureGradientsGpu(const std::vector<MeasuredTensor<T>>& tensors,
                                const MeasureArguments& arguments,
                                const GpuQueue& queue);

// Slices, and where to merge them: there is room for all entries.
struct SlicesToMerge : TableSlices {
  void* merged_ids = nullptr;
  void* merged_values = nullptr;
};

// Merges slices, whose values are of type T.
template <typename T>
const char* MergeSlicesGpu(const std::vector<SlicesToMerge>& slices,
                           Refusal* report, const GpuQueue& queue);

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_APPLY_ON_GPU_H_
