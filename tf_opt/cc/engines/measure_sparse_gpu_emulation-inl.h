// The GPU engine that measures sparse gradients on a machine without a GPU, for
// tests: what the threads of the kernels do, done one after the other. Slow.
#ifndef TF_OPT_CC_ENGINES_MEASURE_SPARSE_GPU_EMULATION_INL_H_
#define TF_OPT_CC_ENGINES_MEASURE_SPARSE_GPU_EMULATION_INL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/emulated_convert-inl.h"
#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/engines/gpu_sort.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/measure_gpu_emulation-inl.h"
#include "tf_opt/cc/engines/measure_sparse_gpu.h"
#include "tf_opt/cc/engines/measure_sparse_gpu_launch.h"

namespace tf_opt {

template <typename T>
const char* MeasureSparseGradientsGpu(
    const std::vector<MeasuredTensor<T>>& tables,
    const std::vector<GpuSlices>& slices, bool lazy,
    const GpuMeasureArguments& arguments, void* workspace, void* stream) {
  const MeasureSparseWorkspace<T> parts(tables, slices);
  bool* const valid = parts.valid(workspace);
  *valid = *arguments.enabled;
  const auto batches = PlanGpuSlices(slices);
  std::vector<GpuSortedEntries> sorted;
  SortOnGpu(batches, {arguments.enabled, valid, false}, parts.sort(workspace),
            stream, &sorted);
  const auto measured = PlanGpuMeasures<T, kGpuTables>(tables);
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const GpuMeasuredTables<T> batch = {batches[b], measured[b]};
    Measure* const tiles = parts.tiles(workspace) + batch.tables.first_tile;
    for (int32_t k = 0; k < batch.tables.tiles(); ++k) {
      tiles[k] = AddEmulatedWarp([&](int thread) {
        return GpuSparseTileThread<EmulatedConvert, T>::Run(
            batch, sorted[b], arguments, lazy, k, thread);
      });
    }
    AddEmulatedTiles(batch.tables, arguments, tiles);
  }
  return nullptr;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_MEASURE_SPARSE_GPU_EMULATION_INL_H_
