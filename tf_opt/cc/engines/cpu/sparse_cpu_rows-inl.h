// Operations of the sparse CPU engines on one row, for one instruction set. The
// same rules hold as in dense_cpu_range-inl.h.
#if !defined(TF_OPT_CPU_TARGET)
#error "TF_OPT_CPU_TARGET must name the target's namespace"
#endif

#include <cstdint>

#include "tf_opt/cc/engines/cpu/sparse_rows.h"
#include "tf_opt/cc/engines/float_conversion-inl.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// Columns per block, by loops of constant length: a row's width is usually a
// multiple of the smaller one.
constexpr int kRowBlock = 64;
constexpr int kSmallBlock = 16;

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

// For a block of columns; `n` is almost always a constant.
template <typename T>
inline __attribute__((always_inline)) void SumBlock(
    const T* values, int64_t width, const RowEntries& entries, int64_t first,
    int64_t count, int n, T* sum) {
  using V = ComputeType<T>;
  alignas(64) V total[kRowBlock] = {};
  alignas(64) V copy[kRowBlock];
  const int64_t ahead = EntriesAhead(width);
  for (int64_t k = first; k < first + count; ++k) {
    // It may belong to one of the next rows.
    const int64_t next =
        k + ahead < entries.count() ? entries.position(k + ahead) : kNoValues;
    if (next != kNoValues) {
      PrefetchRow<false>(values + next * width, n * sizeof(T));
    }
    const int64_t position = entries.position(k);
    if (position == kNoValues) continue;
    const V* const row = Widened(values + position * width, n, copy);
    for (int i = 0; i < n; ++i) total[i] += row[i];
  }
  StoreRow(total, n, sum);
}

// Widens a block of a row; zeros if there is none.
template <typename T, typename V = ComputeType<T>>
inline __attribute__((always_inline)) const V* GradientBlock(const T* gradient,
                                                             int64_t start,
                                                             int n, V* copy) {
  static constexpr V kZeros[kRowBlock] = {};
  return gradient == nullptr ? kZeros : Widened(gradient + start, n, copy);
}

// Adds the squares of n numbers, value_at(i), to n lanes.
template <typename ValueAt>
inline __attribute__((always_inline)) void AddSquares(int n,
                                                      double* __restrict lanes,
                                                      const ValueAt& value_at) {
  for (int i = 0; i < n; ++i) lanes[i] += Square(value_at(i));
}

template <typename T, typename V = ComputeType<T>>
inline __attribute__((always_inline)) void MeasureBlock(V scale,
                                                        const T* gradient,
                                                        const V* accumulator,
                                                        int64_t start, int n,
                                                        double* lanes) {
  alignas(64) V copy[kRowBlock];
  const V* const g = GradientBlock(gradient, start, n, copy);
  if (accumulator == nullptr) {
    AddSquares(n, lanes, [=](int i) { return MeasuredValue(scale, g[i]); });
  } else {
    const V* const a = accumulator + start;
    AddSquares(n, lanes,
               [=](int i) { return MeasuredValue(scale, g[i], a[i]); });
  }
}

}  // namespace

template <typename T>
void SumRow(const T* values, int64_t width, const RowEntries& entries,
            int64_t first, int64_t count, int64_t column, int64_t columns,
            T* sum) {
  const auto sum_block = [=, &entries](int64_t start, int n)
                             __attribute__((always_inline)) {
                               SumBlock(values + column + start, width, entries,
                                        first, count, n, sum + start);
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

template <typename T>
void MeasureRow(ComputeType<T> scale, const T* gradient,
                const ComputeType<T>* accumulator, int64_t columns, int lane,
                double* lanes) {
  for (int64_t start = 0; start < columns;) {
    const int64_t room = kLanes - lane;
    const int64_t left = columns - start < room ? columns - start : room;
    int n = kRowBlock;
    if (left >= kRowBlock) {
      MeasureBlock(scale, gradient, accumulator, start, kRowBlock,
                   lanes + lane);
    } else if (left >= kSmallBlock) {
      n = kSmallBlock;
      MeasureBlock(scale, gradient, accumulator, start, kSmallBlock,
                   lanes + lane);
    } else {
      n = static_cast<int>(left);
      MeasureBlock(scale, gradient, accumulator, start, n, lanes + lane);
    }
    start += n;
    lane = (lane + n) % kLanes;
  }
}

template <typename T>
bool RowIsFinite(ComputeType<T> scale, const T* gradient,
                 const ComputeType<T>* accumulator, int64_t columns) {
  ComputeType<T> copy;
  for (int64_t i = 0; i < columns; ++i) {
    const auto g = *GradientBlock(gradient, i, 1, &copy);
    if (!IsFinite(accumulator == nullptr
                      ? MeasuredValue(scale, g)
                      : MeasuredValue(scale, g, accumulator[i]))) {
      return false;
    }
  }
  return true;
}

double SumOfLanes(double* lanes) { return AddLanes<kLanes>(lanes); }

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt

#define TF_OPT_INSTANTIATE_SPARSE_ROWS(T)                                      \
  template void TF_OPT_CPU_TARGET::SumRow<T>(const T*, int64_t,                \
                                             const RowEntries&, int64_t,       \
                                             int64_t, int64_t, int64_t, T*);   \
  template void TF_OPT_CPU_TARGET::MeasureRow<T>(                              \
      ComputeType<T>, const T*, const ComputeType<T>*, int64_t, int, double*); \
  template bool TF_OPT_CPU_TARGET::RowIsFinite<T>(                             \
      ComputeType<T>, const T*, const ComputeType<T>*, int64_t)
