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
#include <limits>
#include <vector>

#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Copies within the device's memory, in the stream's order.
const char* CopyOnGpu(void* to, const void* from, std::size_t bytes,
                      void* stream);

// A gradient of some rows of a table. Pointers are to device memory.
struct GpuSlices {
  TF_OPT_HOST_DEVICE int64_t entries() const { return count + more_count; }

  const void* values = nullptr;  // A row for each of ...
  const void* ids = nullptr;     // ... these rows of the table.
  int64_t count = 0;
  const void* more_ids = nullptr;  // Rows that occur without values.
  int64_t more_count = 0;
  bool wide_ids = false;  // Rows are int64_t, not int32_t.
  int64_t rows = 0;       // Of the table.
  int64_t capacity = 0;   // Missed steps that there is room for.
};

// An id of no row, which is no error: ops that merge slices fill up with it.
// (Not the greatest number, nor is the next one the least: casts make those of
// NaNs.)
template <typename Index>
constexpr Index kUnusedRow = std::numeric_limits<Index>::max() - 1;
// A bad id that the host was told of: these ops fill up with it if an id is
// bad, so that what takes their results writes nothing.
template <typename Index>
constexpr Index kRefusedRow = std::numeric_limits<Index>::min() + 1;

// An id outside of its table, told to the host where it can read it without a
// wait.
struct BadRow {
  int table = 0;  // Its number, from 1 on; 0: there is none.
  bool has_values = false;
  int64_t row = 0;
  int64_t at = 0;    // Among the ids with, or without, values.
  int64_t rows = 0;  // Of the table.
};

// How rows of tables are updated.
struct GpuRowOptions {
  bool sparse = false;
  bool lazy = false;  // Only rows that occur.
  bool waits = false;
  BadRow* report = nullptr;  // Where the device and the host see it.
};

// The merged gradient of a table, with room for all entries.
template <typename T>
struct MergedOutput {
  void* rows;
  T* sums;
};

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
  bool has_accumulators = true;
  GpuLayer layer;
  GpuRowOptions rows;
  std::vector<GpuSlices> slices;  // One for each variable, if sparse.
};

// Bytes of device memory that a step needs as workspace.
template <typename Description>
std::size_t GpuWorkspaceBytes(const GpuStep& step);

// Makes the rule of each variable and applies it, framed, in the stream's
// order. If a number is out of range, the device prints it and nothing is
// written.
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

// A gradient to measure, which may have only some rows of its accumulator.
template <typename T>
struct GpuMeasuredTensor : MeasuredTensor<T> {
  bool has_all_rows = true;
  const int64_t* rows = nullptr;  // Ascending.
  int64_t row_count = 0;
  int64_t width = 0;  // Elements of a row.
};

// Measures all tensors, in the stream's order: two launches for as many as they
// can describe. `workspace` has MeasureWorkspaceBytes(tensors) bytes of device
// memory.
template <typename T>
const char* MeasureGradientsGpu(
    const std::vector<GpuMeasuredTensor<T>>& tensors,
    const GpuMeasureArguments& arguments, void* workspace, void* stream);

template <typename T>
std::size_t MeasureWorkspaceBytes(
    const std::vector<GpuMeasuredTensor<T>>& tensors) {
  int64_t tiles = 0;
  for (const auto& tensor : tensors) tiles += CountTiles(tensor.size);
  return tiles * sizeof(Measure);
}

// Merges slices, whose rows have widths[i] elements.
template <typename T>
const char* MergeSlicesGpu(const std::vector<GpuSlices>& slices,
                           const std::vector<int64_t>& widths,
                           const std::vector<MergedOutput<T>>& outputs,
                           BadRow* report, void* workspace, void* stream);
template <typename T>
std::size_t MergeWorkspaceBytes(const std::vector<GpuSlices>& slices,
                                const std::vector<int64_t>& widths);

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_APPLY_ON_GPU_H_
