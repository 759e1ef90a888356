// The sum of what a sparse gradient says of a row, a column at a time.
#ifndef TF_OPT_CC_ENGINES_GPU_ROW_SUM_H_
#define TF_OPT_CC_ENGINES_GPU_ROW_SUM_H_

#include <cstdint>

#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// `Convert` widens and narrows 16-bit elements.
template <typename Convert, typename T>
struct GpuRowSum {
  // In the entries' order, computed in the type of the arithmetic and rounded
  // once: as sparse_rows.h says. Zero if there is no entry.
  TF_OPT_RULE_INLINE ComputeType<T> At(int64_t column) const {
    ComputeType<T> sum = 0;
    for (int64_t k = first; k < entries.count && entries.keys[k] == key; ++k) {
      const int64_t number = entries.numbers[k];
      if (number >= slices.count) continue;
      sum += Convert::Widen(values[number * slices.width + column]);
    }
    return Convert::Widen(Convert::Narrow(sum, T()));
  }

  const T* values;
  const GpuSlices& slices;
  const GpuSortedEntries& entries;
  int64_t first;  // The first entry of the row, if there is one, ...
  int64_t key;    // ... and the row's key.
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_ROW_SUM_H_
