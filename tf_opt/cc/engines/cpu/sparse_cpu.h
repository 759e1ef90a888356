// The sparse CPU engine: one rule over many tables whose gradients cover only
// some rows, in one launch. It applies the loops of the dense engine to rows.
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

#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/engines/cpu/parallel_for.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/cpu/waiting_cpu.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Elements of a row that are summed at a time, for which there is room.
constexpr int64_t kSummedColumns = 1024;

// One table with its gradient and its functions.
template <typename T, typename Rule>
class SparseTable {
 public:
  using Tensor = TensorOf<T, Rule>;

  // Rows catch up unless `waiting` is null, and then nothing else happens if
  // `loops` is null.
  SparseTable(const Tensor& table, const SparseGradient<T>& gradient,
              const FramedRule<Rule>& rule, CpuTarget target,
              const RuleLoops<T, Rule>* loops,
              const WaitingTable<T, Rule>* waiting = nullptr)
      : table_(table),
        gradient_(gradient),
        rule_(rule),
        waiting_(waiting),
        loops_(loops),
        sum_row_(SumRowFunctionFor<T>(target)) {
    table_.operands[kGradient] = nullptr;
  }

  // Number of elements to update: all of the table, ...
  int64_t size() const { return table_.size; }
  // ... or one row for each entry, of which those that begin a segment count.
  int64_t lazy_size() const { return gradient_.count() * gradient_.width; }
  int64_t width() const { return gradient_.width; }

  // Applies the rule to the elements [begin, end) of the table.
  void ApplyAll(int64_t begin, int64_t end) const {
    const int64_t width = gradient_.width;
    int64_t k = gradient_.Find(begin / width);
    while (begin < end) {
      const int64_t row_begin =
          k < gradient_.count() ? gradient_.entries.row(k) * width : end;
      if (begin < row_begin) {
        const int64_t stop = std::min(end, row_begin);
        loops_->Apply(rule_, table_, begin, stop);
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
    alignas(64) T sum[kSummedColumns];
    const int64_t row_begin = gradient_.entries.row(k) * gradient_.width;
    if (waiting_ != nullptr) {
      waiting_->CatchUp(gradient_.entries.row(k), begin, end);
      if (loops_ == nullptr) return;
    }
    int64_t summed = -1;  // The first column whose sum is known.
    const auto part_at = [&](int64_t column, int64_t count) {
      if (summed != column) {
        sum_row_(gradient_.values, gradient_.width, gradient_.entries, k,
                 segment_end - k, column, count, sum);
        summed = column;
      }
      Tensor part = table_.Part(row_begin + column, count);
      part.operands[kGradient] = sum;
      return part;
    };
    loops_->ApplyInParts(rule_, begin, end, kSummedColumns, part_at);
  }

  // Prefetches the row of the k-th entry; sum_row_ does so for its values.
  TF_OPT_RULE_INLINE void Prefetch(int64_t k) const {
    const int64_t begin = gradient_.entries.row(k) * gradient_.width;
    const Tensor row = table_.Part(begin, 0);
    for (int i = 0; i < Tensor::kOperands; ++i) {
      if (row.operands[i] == nullptr) continue;
      PrefetchRow<true>(row.operands[i], gradient_.width * row.ElementSize(i));
    }
    if constexpr (Rule::kRowWise) {
      __builtin_prefetch(row.row_states + gradient_.entries.row(k), 1);
    }
    if (waiting_ != nullptr) waiting_->Prefetch(gradient_.entries.row(k));
  }

  Tensor table_;  // It has no gradient.
  const SparseGradient<T>& gradient_;
  const FramedRule<Rule>& rule_;
  const WaitingTable<T, Rule>* waiting_;
  const RuleLoops<T, Rule>* loops_;
  SumRowFunction<T> sum_row_;
};

// Applies updates[i] to rows that occur in gradients[i], or to all rows, for
// all i.
template <typename T, typename Rule>
void ApplySparse(const std::vector<SparseTable<T, Rule>>& updates, bool lazy,
                 int num_threads, const ParallelFor& parallel_for) {
  std::vector<int64_t> sizes;
  for (const auto& update : updates) {
    sizes.push_back(lazy ? update.lazy_size() : update.size());
  }
  ForRangesOf<T, Rule>(
      std::move(sizes), [&](int i) { return updates[i].width(); }, num_threads,
      parallel_for,
      [&](int i, int64_t begin, int64_t end) {
        lazy ? updates[i].ApplyOccurring(begin, end)
             : updates[i].ApplyAll(begin, end);
      });
}

// Applies rules[i] to tables[i] with gradients[i], for all i; see ApplyDense
// for `update`.
template <typename T, typename Rule>
void ApplySparse(const std::vector<TensorOf<T, Rule>>& tables,
                 const std::vector<SparseGradient<T>>& gradients,
                 const std::vector<FramedRule<Rule>>& rules, bool lazy,
                 CpuTarget target, int num_threads,
                 const ParallelFor& parallel_for, bool update = true) {
  const RuleLoops<T, Rule> loops(target, update);
  std::vector<SparseTable<T, Rule>> updates;
  for (size_t i = 0; i < tables.size(); ++i) {
    updates.emplace_back(tables[i], gradients[i], rules[i], target, &loops);
  }
  ApplySparse(updates, lazy, num_threads, parallel_for);
}

// The same for tables whose rows wait[i]: they catch up first. Those that don't
// occur in a lazy update then miss missed[i]. Without `update` rows only catch
// up.
template <typename T, typename Rule>
void ApplyToWaiting(const std::vector<TensorOf<T, Rule>>& tables,
                    const std::vector<SparseGradient<T>>& gradients,
                    const std::vector<FramedRule<Rule>>& rules,
                    const std::vector<MissedStep>& missed, bool lazy,
                    CpuTarget target, int num_threads,
                    const ParallelFor& parallel_for, bool update,
                    std::vector<WaitingRows> wait) {
  const int count = static_cast<int>(tables.size());
  const RuleLoops<T, Rule> loops(target);
  std::vector<WaitingTable<T, Rule>> waiting;
  std::vector<SparseTable<T, Rule>> updates;
  std::vector<int64_t> sizes_of_all;
  waiting.reserve(count);
  const auto all_catch_up = [&](int i) { return !lazy || wait[i].is_full(); };
  for (int i = 0; i < count; ++i) {
    waiting.emplace_back(tables[i], gradients[i].width, rules[i], wait[i],
                         target);
    updates.emplace_back(tables[i], gradients[i], rules[i], target,
                         update ? &loops : nullptr, &waiting[i]);
    sizes_of_all.push_back(all_catch_up(i) ? tables[i].size : 0);
  }
  ForRanges(sizes_of_all, kBytesPerElement<T, Rule>, num_threads, parallel_for,
            [&](int i, int64_t begin, int64_t end) {
              waiting[i].CatchUpAll(begin, end);
            });
  for (int i = 0; i < count; ++i) {
    if (all_catch_up(i)) wait[i].MarkAllUpToDate();
  }
  if (!lazy && !update) return;
  ApplySparse(updates, lazy, num_threads, parallel_for);
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
