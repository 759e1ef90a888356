// The GPU engine that measures gradients, for its callers: two launches for as
// many tensors as they can describe. The notes on CUDA in apply_on_gpu.h
// hold here too.
#ifndef TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_LAUNCH_H_
#define TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_LAUNCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/tiles.h"

namespace tf_opt {

// All pointers are to the device's memory; the results are one number for each
// tensor.
struct GpuMeasureArguments {
  const double* gradient_scale;
  const bool* enabled;  // If false, no tensor is read.
  double* sums_of_squares;
  bool* finite;
};

// Measures all tensors, in the stream's order. `workspace` has
// MeasureWorkspaceBytes(tensors) bytes of device memory.
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

#endif  // TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_LAUNCH_H_
