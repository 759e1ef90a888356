// From an op's slices, whose rows are in a GPU's memory, to what its engines
// are told of them.
#ifndef TF_OPT_CC_KERNELS_SLICES_ON_GPU_H_
#define TF_OPT_CC_KERNELS_SLICES_ON_GPU_H_

#include <cstddef>
#include <vector>

#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/kernels/row_slices.h"

namespace tf_opt {

// The i-th table has rows_of(i) rows.
template <typename RowsOf>
std::vector<GpuSlices> SlicesOnGpu(const std::vector<RowSlices>& slices,
                                   const RowsOf& rows_of) {
  std::vector<GpuSlices> all(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    GpuSlices& one = all[i];
    one.indices = slices[i].indices.data;
    one.count = slices[i].indices.count;
    one.accumulated_rows = slices[i].accumulated_rows.data;
    one.accumulated_count = slices[i].accumulated_rows.count;
    one.wide = slices[i].indices.wide;
    one.rows = rows_of(static_cast<int>(i));
    one.width = slices[i].width;
  }
  return all;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SLICES_ON_GPU_H_
