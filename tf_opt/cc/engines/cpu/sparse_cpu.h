// The sparse CPU engine: one optimizer over many tables whose gradients cover
// only some rows, in one launch. It applies the loops of the dense engine to
// rows.
//
//   exact   every row, those that don't occur with a gradient of zero, which
//           isn't there to be read: the bits of a dense gradient
//   lazy    the rows that occur; they may first catch up with the steps that
//           they missed
#ifndef TF_OPT_CC_ENGINES_CPU_SPARSE_CPU_H_
#define TF_OPT_CC_ENGINES_CPU_SPARSE_CPU_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tf_opt/cc/engines/cpu/cpu_rule.h"
#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/engines/cpu/parallel_for.h"
#include "tf_opt/cc/engines/cpu/range_loops.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/cpu/waiting_cpu.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Elements of a row that are summed at a time, for which there is room.
constexpr int64_t kSummedColumns = 1024;

// One table with its gradient.
template <typename T>
class SparseTable {
 public:
  using V = ComputeType<T>;

  // Rows catch up unless `waiting` is null; without an update, that is all.
  SparseTable(const DenseTensor<T>& table, const SparseGradient<T>& gradient,
              const CpuRule<V>& rule, const RangeLoops<T>& loops,
              const WaitingTable<T>* waiting = nullptr)
      : table_(table),
        gradient_(gradient),
        rule_(rule),
        loops_(loops),
        waiting_(waiting) {}

  // Number of elements to update: all of the table, ...
  int64_t size() const { return table_.size; }
  // ... or one row for each entry, of which those that begin a segment count.
  int64_t lazy_size() const { return gradient_.count() * gradient_.width; }

  // Applies the rule to the elements [begin, end) of the table.
  void ApplyAll(int64_t begin, int64_t end) const {
    const int64_t width = gradient_.width;
    int64_t k = gradient_.Find(begin / width);
    while (begin < end) {
      const int64_t row_begin =
          k < gradient_.count() ? gradient_.entries.row(k) * width : end;
      if (begin < row_begin) {
        const int64_t stop = std::min(end, row_begin);
        loops_.apply(rule_, {table_, /*gradient=*/nullptr, begin, stop});
        begin = stop;
        continue;
      }
      const int64_t segment_end = gradient_.SegmentEnd(k);
      const int64_t stop = std::min(end, row_begin + width);
      ApplyRow(k, segment_end, begin - row_begin, stop - row_begin);
      begin = stop;
      k = segment_end;
    }
  }

  // Applies the rule to the rows that occur: those whose first entries have the
  // elements [begin, end), counting the elements of all entries.
  void ApplyOccurring(int64_t begin, int64_t end) const {
    const int64_t width = gradient_.width;
    const int64_t ahead = EntriesAhead(width);
    while (begin < end) {
      const int64_t k = begin / width;
      const int64_t stop = std::min(end, (k + 1) * width);
      if (k + ahead < gradient_.count()) Prefetch(k + ahead);
      if (gradient_.BeginsSegment(k)) {
        ApplyRow(k, gradient_.SegmentEnd(k), begin - k * width,
                 stop - k * width);
      }
      begin = stop;
    }
  }

 private:
  // Applies the rule to the columns [begin, end) of the row with the entries
  // [k, segment_end).
  void ApplyRow(int64_t k, int64_t segment_end, int64_t begin,
                int64_t end) const {
    const int64_t row = gradient_.entries.row(k);
    if (waiting_ != nullptr) {
      waiting_->CatchUp(row, begin, end);
      if (!rule_.frame.update) return;
    }
    alignas(64) T sum[kSummedColumns];
    // Sums the row part by part and calls use(first, last) for each.
    const auto for_parts = [&](const auto& use) {
      for (int64_t column = begin; column < end; column += kSummedColumns) {
        const int64_t count = std::min(end - column, kSummedColumns);
        loops_.sum_row(gradient_.values, gradient_.width, gradient_.entries, k,
                       segment_end - k, column, count, sum);
        const int64_t first = row * gradient_.width + column;
        use(first, first + count);
      }
    };
    if (rule_.is_row_wise() && rule_.frame.update &&
        end - begin > kSummedColumns) {
      ApplyToLongRow(row, for_parts, sum);
      return;
    }
    for_parts([&](int64_t first, int64_t last) {
      loops_.apply(rule_, {table_, sum, first, last});
    });
  }

  // For a row of several parts, which are summed one at a time: a row-wise rule
  // takes them twice.
  template <typename ForParts>
  void ApplyToLongRow(int64_t row, const ForParts& for_parts,
                      const T* sum) const {
    alignas(64) double lanes[kLanes] = {};
    for_parts([&](int64_t first, int64_t last) {
      loops_.add_squares(rule_, {table_, sum, first, last}, lanes);
    });
    CpuRule<V> own = rule_;
    rule_.loops->for_row(rule_.rule, MeanOfLanes<V>(lanes, gradient_.width),
                         rule_.row_states + row, own.rule);
    own.row_states = nullptr;
    for_parts([&](int64_t first, int64_t last) {
      loops_.apply(own, {table_, sum, first, last});
    });
  }

  // Prefetches the row of the k-th entry; sum_row does so for its values.
  TF_OPT_RULE_INLINE void Prefetch(int64_t k) const {
    const int64_t row = gradient_.entries.row(k);
    const int64_t width = gradient_.width;
    for (int i = 0; i < kMostOperands; ++i) {
      if (i == kGradient || table_.operands[i] == nullptr) continue;
      const int64_t bytes = width * table_.ElementSize(i);
      PrefetchRow<true>(static_cast<char*>(table_.operands[i]) + row * bytes,
                        bytes);
    }
    if (rule_.row_states != nullptr) {
      __builtin_prefetch(rule_.row_states + row, 1);
    }
    if (waiting_ != nullptr) waiting_->Prefetch(row);
  }

  const DenseTensor<T>& table_;
  const SparseGradient<T>& gradient_;
  const CpuRule<V>& rule_;
  const RangeLoops<T>& loops_;
  const WaitingTable<T>* waiting_;
};

// Applies rules[i] to the rows that occur in the gradient of tables[i], or to
// all rows, for all i.
template <typename T>
void ApplySparse(const std::vector<SparseTable<T>>& tables,
                 const CpuRules<T>& rules, bool lazy, int num_threads,
                 const ParallelFor& parallel_for) {
  std::vector<int64_t> sizes;
  for (const auto& table : tables) {
    sizes.push_back(lazy ? table.lazy_size() : table.size());
  }
  ForRangesOf<T>(std::move(sizes), rules, num_threads, parallel_for,
                 [&](int i, int64_t begin, int64_t end) {
                   lazy ? tables[i].ApplyOccurring(begin, end)
                        : tables[i].ApplyAll(begin, end);
                 });
}

// Applies rules[i] to tables[i] with gradients[i], for all i.
template <typename T>
void ApplySparse(const std::vector<DenseTensor<T>>& tables,
                 const std::vector<SparseGradient<T>>& gradients,
                 const CpuRules<T>& rules, bool lazy, CpuTarget target,
                 int num_threads, const ParallelFor& parallel_for) {
  const RangeLoops<T>& loops = TF_OPT_OF_CPU_TARGET(target, RangeLoopsOf<T>());
  std::vector<SparseTable<T>> updates;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    updates.emplace_back(tables[i], gradients[i], rules[i], loops);
  }
  ApplySparse(updates, rules, lazy, num_threads, parallel_for);
}

// The same for tables whose rows wait[i]: they catch up first. Those that don't
// occur in a lazy update then miss missed[i]. Rules that don't update only let
// rows catch up.
template <typename T>
void ApplyToWaiting(const std::vector<DenseTensor<T>>& tables,
                    const std::vector<SparseGradient<T>>& gradients,
                    const CpuRules<T>& rules,
                    const std::vector<MissedStep>& missed, bool lazy,
                    CpuTarget target, int num_threads,
                    const ParallelFor& parallel_for,
                    std::vector<WaitingRows> wait) {
  const int count = static_cast<int>(tables.size());
  const bool update = count > 0 && rules[0].frame.update;
  const RangeLoops<T>& loops = TF_OPT_OF_CPU_TARGET(target, RangeLoopsOf<T>());
  std::vector<WaitingTable<T>> waiting;
  std::vector<SparseTable<T>> updates;
  std::vector<int64_t> sizes_of_all;
  waiting.reserve(count);
  const auto all_catch_up = [&](int i) { return !lazy || wait[i].is_full(); };
  for (int i = 0; i < count; ++i) {
    waiting.emplace_back(tables[i], gradients[i].width, rules[i], wait[i],
                         loops);
    updates.emplace_back(tables[i], gradients[i], rules[i], loops, &waiting[i]);
    sizes_of_all.push_back(all_catch_up(i) ? tables[i].size : 0);
  }
  ForRangesOf<T>(std::move(sizes_of_all), rules, num_threads, parallel_for,
                 [&](int i, int64_t begin, int64_t end) {
                   waiting[i].CatchUpAll(begin, end);
                 });
  for (int i = 0; i < count; ++i) {
    if (all_catch_up(i)) wait[i].MarkAllUpToDate();
  }
  if (!lazy && !update) return;
  ApplySparse(updates, rules, lazy, num_threads, parallel_for);
  if (!lazy) return;
  const auto finish = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const SparseGradient<T>& gradient = gradients[i];
      if (update) wait[i].Miss(missed[i]);
      for (int64_t k = 0; k < gradient.count(); ++k) {
        wait[i].MarkUpToDate(gradient.entries.row(k));
      }
    }
  };
  if (count == 1 || num_threads <= 1) {
    finish(0, count);
  } else {
    parallel_for(count, 1, finish);
  }
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_SPARSE_CPU_H_
