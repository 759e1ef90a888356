// Merges sparse gradients: the rows that occur, each once, and their sums.
#ifndef TF_OPT_CC_ENGINES_CPU_MERGE_CPU_H_
#define TF_OPT_CC_ENGINES_CPU_MERGE_CPU_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/tiles.h"

namespace tf_opt {

template <typename T>
struct MergedSlices {
  SparseGradient gradient;
  std::vector<int64_t> firsts;  // The first entry of each row that occurs.
  T* sums;                      // Of these rows, one after the other.
};

inline std::vector<int64_t> FirstEntries(const SparseGradient& gradient) {
  std::vector<int64_t> firsts;
  for (int64_t k = 0; k < gradient.count; ++k) {
    if (gradient.BeginsSegment(k)) firsts.push_back(k);
  }
  return firsts;
}

// Writes the sums of all tables.
template <typename T>
void SumRows(const std::vector<MergedSlices<T>>& tables, CpuTarget target,
             const CpuThreads& threads) {
  std::vector<int64_t> sizes;
  for (const auto& table : tables) {
    sizes.push_back(static_cast<int64_t>(table.firsts.size()) *
                    table.gradient.width);
  }
  const auto sum_row = TF_OPT_OF_CPU_TARGET(target, RangeLoopsOf<T>()).sum_row;

  ForRanges(
      sizes, 2 * sizeof(T), threads, [&](int i, int64_t begin, int64_t end) {
        const SparseGradient& gradient = tables[i].gradient;
        const int64_t width = gradient.width;
        while (begin < end) {
          const int64_t row = begin / width;
          const int64_t stop = std::min(end, (row + 1) * width);
          const int64_t k = tables[i].firsts[row];
          sum_row(gradient, k, gradient.SegmentEnd(k) - k, begin - row * width,
                  stop - begin, tables[i].sums + begin);
          begin = stop;
        }
      });
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_MERGE_CPU_H_
