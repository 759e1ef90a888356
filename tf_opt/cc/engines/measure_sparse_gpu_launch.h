// The GPU engine that measures sparse gradients, as its callers see it. What
// dense_gpu_launch.h says of CUDA holds here too.
#ifndef TF_OPT_CC_ENGINES_MEASURE_SPARSE_GPU_LAUNCH_H_
#define TF_OPT_CC_ENGINES_MEASURE_SPARSE_GPU_LAUNCH_H_

#include <cstddef>
#include <vector>

#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/engines/gpu_sort.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/measure_gpu_launch.h"

namespace tf_opt {

// Measures tables[i], for all i, in the stream's order: each with its number of
// elements, and as its gradient the values of slices[i]. `lazy`: what was
// accumulated counts only in the rows that occur. A row that isn't there is not
// counted, and the first is printed by the device. `workspace` are
// MeasureSparseWorkspaceBytes of the device's memory.
template <typename T>
const char* MeasureSparseGradientsGpu(
    const std::vector<MeasuredTensor<T>>& tables,
    const std::vector<GpuSlices>& slices, bool lazy,
    const GpuMeasureArguments& arguments, void* workspace, void* stream);

// What a workspace consists of: the measures of tiles, sorted entries, and
// whether no wrong row has been printed yet.
template <typename T>
struct MeasureSparseWorkspace {
  MeasureSparseWorkspace(const std::vector<MeasuredTensor<T>>& tables,
                         const std::vector<GpuSlices>& slices)
      : tiles_bytes(MeasureWorkspaceBytes(tables)),
        sort_bytes(SortWorkspaceBytes(PlanGpuSlices(slices))) {}

  Measure* tiles(void* workspace) const {
    return static_cast<Measure*>(workspace);
  }
  void* sort(void* workspace) const {
    return static_cast<unsigned char*>(workspace) + tiles_bytes;
  }
  bool* valid(void* workspace) const {
    return static_cast<bool*>(sort(workspace)) + sort_bytes;
  }
  std::size_t bytes() const { return tiles_bytes + sort_bytes + sizeof(bool); }

  std::size_t tiles_bytes, sort_bytes;
};

template <typename T>
std::size_t MeasureSparseWorkspaceBytes(
    const std::vector<MeasuredTensor<T>>& tables,
    const std::vector<GpuSlices>& slices) {
  return MeasureSparseWorkspace<T>(tables, slices).bytes();
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_MEASURE_SPARSE_GPU_LAUNCH_H_
