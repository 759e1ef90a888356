// The engine that measures sparse gradients on the CPU: it sums repeated rows
// and measures the sums in the order of a dense gradient (measure.h). Absent
// rows are zeros and add nothing, so the bits equal those of a dense gradient.
#ifndef TF_OPT_CC_ENGINES_CPU_MEASURE_SPARSE_CPU_H_
#define TF_OPT_CC_ENGINES_CPU_MEASURE_SPARSE_CPU_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/measure_cpu.h"
#include "tf_opt/cc/engines/cpu/parallel_for.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/cpu/sparse_rows.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"

namespace tf_opt {

template <typename T>
struct MeasuredTable {
  const SparseGradient<T>* gradient;
  const ComputeType<T>* accumulator;  // Of the table's shape; or null.
  int64_t size;                       // Elements of the table.
  // True if only the rows that occur count in the accumulator.
  bool lazy;
};

// A tile of a table with something to measure.
struct OccupiedTile {
  int table;
  int64_t tile;   // Its number in the table.
  int64_t entry;  // The first entry whose row ends after the tile's begin.
};

// Adds the tiles of a table, in order.
template <typename T>
void AddOccupiedTiles(const MeasuredTable<T>& table, ComputeType<T> scale,
                      int i, std::vector<OccupiedTile>* tiles) {
  const SparseGradient<T>& gradient = *table.gradient;
  if (ZerosCount(table.lazy, table.accumulator, scale)) {
    for (int64_t tile = 0; tile < CountTiles(table.size); ++tile) {
      tiles->push_back(
          {i, tile, gradient.Find(tile * kTileSize / gradient.width)});
    }
    return;
  }
  int64_t next = 0;
  for (int64_t k = 0; k < gradient.count(); ++k) {
    if (!gradient.BeginsSegment(k)) continue;
    const int64_t begin = gradient.entries.row(k) * gradient.width;
    const int64_t end = CountTiles(begin + gradient.width);
    for (next = std::max(next, begin / kTileSize); next < end; ++next) {
      tiles->push_back({i, next, k});
    }
  }
}

template <typename T>
class SparseTileMeasurer {
 public:
  SparseTileMeasurer(const MeasuredTable<T>& table, ComputeType<T> scale,
                     const RowFunctions<T>& rows)
      : table_(table),
        gradient_(*table.gradient),
        scale_(scale),
        rows_(rows),
        zeros_count_(ZerosCount(table.lazy, table.accumulator, scale)) {}

  // Measures the elements [begin, end), all in one tile; `k` is the first entry
  // of the tile.
  Measure Run(int64_t k, int64_t begin, int64_t end) const {
    alignas(64) double lanes[kLanes] = {};
    ForParts(k, begin, end, [&](const T* gradient, int64_t at, int64_t size) {
      rows_.measure(scale_, gradient, AccumulatorAt(at), size,
                    static_cast<int>((at - begin) % kLanes), lanes);
    });
    const double sum = rows_.sum_of_lanes(lanes);
    // A finite sum has only finite terms, so this is almost never needed.
    bool finite = true;
    if (!IsFinite(sum)) {
      ForParts(k, begin, end, [&](const T* gradient, int64_t at, int64_t size) {
        finite &= rows_.is_finite(scale_, gradient, AccumulatorAt(at), size);
      });
    }
    return {sum, finite};
  }

 private:
  // Calls use(gradient, at, size) for the parts of [begin, end) to measure:
  // `size` elements from `at` on, with their gradient or null.
  template <typename Use>
  void ForParts(int64_t k, int64_t begin, int64_t end, const Use& use) const {
    const int64_t width = gradient_.width;
    const int64_t ahead = EntriesAhead(width);
    while (begin < end) {
      const int64_t row_begin =
          k < gradient_.count() ? gradient_.entries.row(k) * width : end;
      if (begin < row_begin) {
        const int64_t stop = std::min(end, row_begin);
        if (zeros_count_) use(nullptr, begin, stop - begin);
        begin = stop;
        continue;
      }
      const int64_t segment_end = gradient_.SegmentEnd(k);
      const int64_t stop = std::min(end, row_begin + width);
      const int64_t position = gradient_.entries.position(k);
      if (segment_end - k == 1 && position != kNoValues) {
        if (k + ahead < gradient_.count()) {
          PrefetchValues(gradient_, k + ahead);
        }
        // A single entry's values are its sum.
        use(gradient_.values + position * width + (begin - row_begin), begin,
            stop - begin);
        begin = stop;
      }
      while (begin < stop) {
        const int64_t columns = std::min(stop - begin, kSummedColumns);
        alignas(64) T sum[kSummedColumns];
        rows_.sum(gradient_.values, width, gradient_.entries, k,
                  segment_end - k, begin - row_begin, columns, sum);
        use(sum, begin, columns);
        begin += columns;
      }
      k = segment_end;
    }
  }

  const ComputeType<T>* AccumulatorAt(int64_t at) const {
    return table_.accumulator == nullptr ? nullptr : table_.accumulator + at;
  }

  const MeasuredTable<T>& table_;
  const SparseGradient<T>& gradient_;
  const ComputeType<T> scale_;
  const RowFunctions<T>& rows_;
  const bool zeros_count_;
};

// Measures tables[i], for all i.
template <typename T>
std::vector<Measure> MeasureSparseGradients(
    const std::vector<MeasuredTable<T>>& tables, double gradient_scale,
    CpuTarget target, int num_threads, const ParallelFor& parallel_for) {
  const auto scale = static_cast<ComputeType<T>>(gradient_scale);
  std::vector<OccupiedTile> occupied;
  int64_t elements = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    const MeasuredTable<T>& table = tables[i];
    AddOccupiedTiles(table, scale, static_cast<int>(i), &occupied);
    elements += ZerosCount(table.lazy, table.accumulator, scale)
                    ? table.size
                    : table.gradient->count() * table.gradient->width;
  }
  std::vector<Measure> measures(occupied.size());
  const RowFunctions<T> rows = RowFunctionsFor<T>(target);
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const MeasuredTable<T>& table = tables[occupied[k].table];
      const int64_t first = occupied[k].tile * kTileSize;
      measures[k] = SparseTileMeasurer<T>(table, scale, rows)
                        .Run(occupied[k].entry, first,
                             first + std::min(kTileSize, table.size - first));
    }
  };
  const auto count = static_cast<int64_t>(occupied.size());
  if (elements * static_cast<int64_t>(sizeof(T)) <= kInlineBytes ||
      num_threads <= 1) {
    body(0, count);
  } else {
    parallel_for(count,
                 std::max<int64_t>(1, count / (kPiecesPerThread * num_threads)),
                 body);
  }

  std::vector<MeasureOfTiles> totals(tables.size());
  for (int64_t k = 0; k < count; ++k) {
    totals[occupied[k].table].Add(occupied[k].tile, measures[k]);
  }
  std::vector<Measure> results;
  results.reserve(tables.size());
  for (MeasureOfTiles& total : totals) results.push_back(total.Total());
  return results;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_MEASURE_SPARSE_CPU_H_
