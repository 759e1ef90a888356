// From an op's slices, whose rows are in a GPU's memory, to what its engines
// are told of them.
#ifndef TF_OPT_CC_KERNELS_SLICES_ON_GPU_H_
#define TF_OPT_CC_KERNELS_SLICES_ON_GPU_H_

#include <vector>

#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/kernels/row_slices.h"

namespace tf_opt {

// The i-th table has rows_of(i) rows. After their shapes have been checked.
template <typename RowsOf>
std::vector<GpuSlices> SlicesOnGpu(const RowSlices& slices,
                                   const RowsOf& rows_of) {
  std::vector<GpuSlices> all(slices.size());
  for (int i = 0; i < slices.size(); ++i) {
    GpuSlices& one = all[i];
    one.indices = slices.indices(i).data();
    one.count = slices.indices(i).NumElements();
    if (slices.has_accumulated_rows()) {
      one.accumulated_rows = slices.accumulated_rows(i).data();
      one.accumulated_count = slices.accumulated_rows(i).NumElements();
    }
    one.wide = slices.indices(i).dtype() == tensorflow::DT_INT64;
    one.rows = rows_of(i);
    one.width = slices.width(i);
  }
  return all;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SLICES_ON_GPU_H_
