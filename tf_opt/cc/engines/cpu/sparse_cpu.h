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
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
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

  // Rows wait if `waiting` isn't null: they catch up first, and without an
  // update that is all.
  SparseTable(const DenseTensor<T>& table, const SparseGradient& gradient,
              const CpuRule<V>& rule, const RangeLoops<T>& loops,
              const WaitingRows* waiting)
      : table_(table),
        gradient_(gradient),
        rule_(rule),
        coasting_rule_(rule),
        loops_(loops),
        waiting_(waiting) {
    coasting_rule_.frame = rule.frame.ForCoasting();
  }

  // Lets the elements [begin, end) of the table, whose rows wait, catch up.
  void CatchUpAll(int64_t begin, int64_t end) const {
    const int64_t width = gradient_.width;
    while (begin < end) {
      const int64_t row = begin / width;
      const int64_t stop = std::min(end, (row + 1) * width);
      CatchUp(row, begin, stop);
      begin = stop;
    }
  }

  // Applies the rule to the elements [begin, end) of the table.
  void UpdateAll(int64_t begin, int64_t end) const {
    const int64_t width = gradient_.width;
    int64_t k = gradient_.Find(begin / width);
    while (begin < end) {
      const int64_t row_begin =
          k < gradient_.count ? gradient_.entries[k].row * width : end;
      if (begin < row_begin) {
        const int64_t stop = std::min(end, row_begin);
        loops_.update(rule_, {table_, /*gradient=*/nullptr, begin, stop});
        begin = stop;
        continue;
      }
      const int64_t segment_end = gradient_.SegmentEnd(k);
      const int64_t stop = std::min(end, row_begin + width);
      UpdateRow(k, segment_end, begin - row_begin, stop - row_begin);
      begin = stop;
      k = segment_end;
    }
  }

  // Applies the rule to the rows that occur: those whose first entries have the
  // elements [begin, end), counting the elements of all entries.
  void UpdateOccurring(int64_t begin, int64_t end) const {
    const int64_t width = gradient_.width;
    const int64_t ahead = EntriesAhead(width);
    while (begin < end) {
      const int64_t k = begin / width;
      const int64_t stop = std::min(end, (k + 1) * width);
      if (k + ahead < gradient_.count) Prefetch(k + ahead);
      if (gradient_.BeginsSegment(k)) {
        UpdateRow(k, gradient_.SegmentEnd(k), begin - k * width,
                  stop - k * width);
      }
      begin = stop;
    }
  }

 private:
  // Lets the elements [begin, end) of the table, which are in a row, catch up.
  void CatchUp(int64_t row, int64_t begin, int64_t end) const {
    const MissedSteps* const missed = waiting_->Of(row);
    if (missed == nullptr) return;
    loops_.coast(coasting_rule_, Coasting<V>(*missed), table_, begin, end);
  }

  // Applies the rule to the columns [begin, end) of the row with the entries
  // [k, segment_end).
  void UpdateRow(int64_t k, int64_t segment_end, int64_t begin,
                 int64_t end) const {
    const int64_t row = gradient_.entries[k].row;
    const int64_t row_begin = row * gradient_.width;
    if (waiting_ != nullptr) {
      CatchUp(row, row_begin + begin, row_begin + end);
      if (!rule_.frame.update) return;
    }
    alignas(64) T sum[kSummedColumns];
    // Sums the row part by part and calls use(first, last) for each.
    const auto for_parts = [&](const auto& use) {
      for (int64_t column = begin; column < end; column += kSummedColumns) {
        const int64_t count = std::min(end - column, kSummedColumns);
        loops_.sum_row(gradient_, k, segment_end - k, column, count, sum);
        use(row_begin + column, row_begin + column + count);
      }
    };
    if (rule_.is_row_wise() && rule_.frame.update &&
        end - begin > kSummedColumns) {
      UpdateLongRow(row, for_parts, sum);
      return;
    }
    for_parts([&](int64_t first, int64_t last) {
      loops_.update(rule_, {table_, sum, first, last});
    });
  }

  // For a row of several parts, which are summed one at a time: a row-wise rule
  // takes them twice.
  template <typename ForParts>
  void UpdateLongRow(int64_t row, const ForParts& for_parts,
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
      loops_.update(own, {table_, sum, first, last});
    });
  }

  // Prefetches the row of the k-th entry; sum_row does so for its values.
  TF_OPT_RULE_INLINE void Prefetch(int64_t k) const {
    const int64_t row = gradient_.entries[k].row;
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
    if (waiting_ != nullptr) __builtin_prefetch(waiting_->Address(row), 1);
  }

  const DenseTensor<T>& table_;
  const SparseGradient& gradient_;
  const CpuRule<V>& rule_;
  CpuRule<V> coasting_rule_;  // For rows that wait.
  const RangeLoops<T>& loops_;
  const WaitingRows* waiting_;
};

// Applies rules[i] to tensors[i] with the slices of a step, for all i: to the
// rows that occur, or to all rows. If rows wait, they catch up first; rules
// that don't update do nothing else. The rows that don't occur in a lazy update
// then miss missed[i].
template <typename T>
void ApplySparse(const CpuStep& step,
                 const std::vector<DenseTensor<T>>& tensors,
                 const CpuRules<T>& rules,
                 const std::vector<MissedStep>& missed) {
  const int count = static_cast<int>(tensors.size());
  const bool lazy = step.rows.lazy;
  const bool waits = step.catches_up();
  std::vector<WaitingRows> waiting;
  // Their operands follow the slots.
  const int first = rules[0].loops->slots + rules[0].is_row_wise();
  for (int i = 0; waits && i < count; ++i) {
    waiting.emplace_back(
        static_cast<float*>(step.arrays.Slot(first, i)), step.slices[i].rows,
        static_cast<MissedSteps*>(step.arrays.Slot(first + 1, i)),
        step.capacities[i]);
  }
  const bool update = rules[0].frame.update;
  const RangeLoops<T>& loops =
      TF_OPT_OF_CPU_TARGET(step.target, RangeLoopsOf<T>());
  const auto all_catch_up = [&](int i) {
    return waits && (!lazy || waiting[i].is_full());
  };
  const std::vector<SparseGradient>& gradients = step.gradients;
  std::vector<SparseTable<T>> tables;
  std::vector<int64_t> sizes, sizes_of_waiting;
  for (int i = 0; i < count; ++i) {
    tables.emplace_back(tensors[i], gradients[i], rules[i], loops,
                        waits ? &waiting[i] : nullptr);
    // Lazy: one row for each entry, of which those that begin a segment count.
    sizes.push_back(lazy ? gradients[i].count * gradients[i].width
                         : tensors[i].size);
    sizes_of_waiting.push_back(all_catch_up(i) ? tensors[i].size : 0);
  }
  const int64_t bytes_per_element = BytesPerElement<T>(rules);
  ForRanges(sizes_of_waiting, bytes_per_element, step.threads,
            [&](int i, int64_t begin, int64_t end) {
              tables[i].CatchUpAll(begin, end);
            });
  for (int i = 0; i < count; ++i) {
    if (all_catch_up(i)) waiting[i].MarkAllUpToDate();
  }
  if (waits && !lazy && !update) return;
  ForRanges(sizes, bytes_per_element, step.threads,
            [&](int i, int64_t begin, int64_t end) {
              begin = rules[i].NextRow(begin);
              end = rules[i].NextRow(end);
              lazy ? tables[i].UpdateOccurring(begin, end)
                   : tables[i].UpdateAll(begin, end);
            });
  if (!waits || !lazy) return;
  step.threads.ForTensors(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const SparseGradient& gradient = gradients[i];
      if (update) waiting[i].Miss(missed[i]);
      for (int64_t k = 0; k < gradient.count; ++k) {
        waiting[i].MarkUpToDate(gradient.entries[k].row);
      }
    }
  });
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_SPARSE_CPU_H_
