// What the sparse CPU engines do with one row, for one instruction set; what
// dense_cpu_range-inl.h says of such a file holds here too.
#if !defined(TF_OPT_CPU_TARGET)
#error "TF_OPT_CPU_TARGET must name the target's namespace"
#endif

#include <cstdint>

#include "tf_opt/cc/engines/float_conversion-inl.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/sparse_rows.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

constexpr int kRowBlock = 64;

template <typename V>
inline __attribute__((always_inline)) const V* RowWidened(const V* values, int,
                                                          V*) {
  return values;
}
template <typename V, typename T>
inline __attribute__((always_inline)) const V* RowWidened(const T* values,
                                                          int n, V* copy) {
  WidenBlock(values, n, copy);
  return copy;
}

template <typename V>
inline __attribute__((always_inline)) void StoreRow(const V* from, int n,
                                                    V* to) {
  for (int i = 0; i < n; ++i) to[i] = from[i];
}
template <typename V, typename T>
inline __attribute__((always_inline)) void StoreRow(const V* from, int n,
                                                    T* to) {
  NarrowBlock(from, n, to);
}

// Of a block of columns; `n` is a constant for nearly all of them.
template <typename T>
inline __attribute__((always_inline)) void SumBlock(const T* values,
                                                    int64_t width,
                                                    const RowEntry* entries,
                                                    int64_t count, int n,
                                                    T* sum) {
  using V = ComputeType<T>;
  alignas(64) V total[kRowBlock] = {};
  alignas(64) V copy[kRowBlock];
  for (int64_t k = 0; k < count; ++k) {
    if (entries[k].position == RowEntry::kNoValues) continue;
    const V* const row =
        RowWidened(values + entries[k].position * width, n, copy);
    for (int i = 0; i < n; ++i) total[i] += row[i];
  }
  StoreRow(total, n, sum);
}

// value_at(i) is the i-th of n numbers.
template <typename V, typename ValueAt>
inline __attribute__((always_inline)) void MeasureBlock(
    int n, double* __restrict lanes, V* __restrict differences,
    const ValueAt& value_at) {
  for (int i = 0; i < n; ++i) {
    const V x = value_at(i);
    lanes[i] += Square(x);
    differences[i] += x - x;
  }
}

}  // namespace

template <typename T>
void SumRow(const T* values, int64_t width, const RowEntry* entries,
            int64_t count, int64_t column, int64_t columns, T* sum) {
  int64_t start = 0;
  for (; start + kRowBlock <= columns; start += kRowBlock) {
    SumBlock(values + column + start, width, entries, count, kRowBlock,
             sum + start);
  }
  if (start < columns) {
    SumBlock(values + column + start, width, entries, count,
             static_cast<int>(columns - start), sum + start);
  }
}

template <typename T>
void MeasureRow(ComputeType<T> scale, const T* gradient,
                const ComputeType<T>* accumulator, int64_t columns, int lane,
                double* lanes, bool* finite) {
  using V = ComputeType<T>;
  alignas(64) const V zeros[kRowBlock] = {};
  alignas(64) V copy[kRowBlock];
  // Zeros, or NaNs where a number was not finite.
  alignas(64) V differences[kRowBlock] = {};
  for (int64_t start = 0; start < columns;) {
    int n = kLanes - lane < kRowBlock ? kLanes - lane : kRowBlock;
    n = columns - start < n ? static_cast<int>(columns - start) : n;
    const V* const g =
        gradient == nullptr ? zeros : RowWidened(gradient + start, n, copy);
    if (accumulator == nullptr) {
      MeasureBlock(n, lanes + lane, differences,
                   [=](int i) { return MeasuredValue(scale, g[i]); });
    } else {
      const V* const a = accumulator + start;
      MeasureBlock(n, lanes + lane, differences,
                   [=](int i) { return MeasuredValue(scale, g[i], a[i]); });
    }
    start += n;
    lane = (lane + n) % kLanes;
  }
  for (const V difference : differences) {
    if (difference != 0) *finite = false;
  }
}

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt

#define TF_OPT_INSTANTIATE_SPARSE_ROWS(T)                                  \
  template void TF_OPT_CPU_TARGET::SumRow<T>(                              \
      const T*, int64_t, const RowEntry*, int64_t, int64_t, int64_t, T*);  \
  template void TF_OPT_CPU_TARGET::MeasureRow<T>(ComputeType<T>, const T*, \
                                                 const ComputeType<T>*,    \
                                                 int64_t, int, double*, bool*)
