// The sum of a row's entries, for one instruction set. The same rules hold as
// in range_loops-inl.h.
#include <cstdint>

#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/float_conversion-inl.h"
#include "tf_opt/cc/engines/storage_types.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// Columns per block, by loops of constant length: a row's width is usually a
// multiple of the smaller one.
constexpr int kRowBlock = 64;
constexpr int kSmallBlock = 16;

// For a block of columns; `n` is almost always a constant.
template <typename T>
inline __attribute__((always_inline)) void SumBlock(
    const SparseGradient& gradient, int64_t first, int64_t count,
    int64_t column, int n, T* sum) {
  using V = ComputeType<T>;
  alignas(64) V total[kRowBlock] = {};
  alignas(64) V copy[kRowBlock];
  const int64_t width = gradient.width;
  const T* const values = static_cast<const T*>(gradient.values) + column;
  const int64_t ahead = EntriesAhead(width);
  for (int64_t k = first; k < first + count; ++k) {
    // It may belong to one of the next rows.
    const uint32_t next = k + ahead < gradient.count
                              ? gradient.entries[k + ahead].position
                              : kNoValues;
    if (next != kNoValues) {
      PrefetchRow<false>(values + next * width, n * sizeof(T));
    }
    const uint32_t position = gradient.entries[k].position;
    if (position == kNoValues) continue;
    const V* const row = Widened(values + position * width, n, copy);
    for (int i = 0; i < n; ++i) total[i] += row[i];
  }
  NarrowBlock(total, n, sum);
}

template <typename T>
void SumRow(const SparseGradient& gradient, int64_t first, int64_t count,
            int64_t column, int64_t columns, T* sum) {
  const auto sum_block = [=, &gradient](int64_t start,
                                        int n) __attribute__((always_inline)) {
    SumBlock(gradient, first, count, column + start, n, sum + start);
  };
  int64_t start = 0;
  for (; start + kRowBlock <= columns; start += kRowBlock) {
    sum_block(start, kRowBlock);
  }
  for (; start + kSmallBlock <= columns; start += kSmallBlock) {
    sum_block(start, kSmallBlock);
  }
  if (start < columns) sum_block(start, static_cast<int>(columns - start));
}

}  // namespace
}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
