// The row engine for GPUs: applies rules to rows of tables. Once sums are there
// (sum_rows_gpu.h), a row costs one pass over its variable and slots.
//
//   exact   the rows that occur, and then the others without a gradient
//   lazy    the rows that occur; they may first catch up with the steps that
//           they missed
#ifndef TF_OPT_CC_ENGINES_GPU_ROWS_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_ROWS_GPU_H_

#include <cstdint>

#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/gpu/gpu_state.h"
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/gpu/row_batch.h"
#include "tf_opt/cc/engines/gpu/waiting_rows_gpu.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// A table's tensor, with the step's layer of a stacked slot. (A copy would take
// registers.)
template <typename Rule, typename T>
TF_OPT_RULE_INLINE decltype(auto) TensorOf(const RowBatch<T>& batch, int i) {
  const DenseTensor<T>& tensor = batch.tables[i].tensor;
  if constexpr (kStackedOf<Rule> == 0) {
    return (tensor);
  } else {
    return tensor.AtLayer(kStackedOf<Rule>, batch.header->layer);
  }
}

// Updates a thread's part of a row, or only accumulates its gradient.
template <typename T, typename Rule>
TF_OPT_RULE_INLINE void TakeRow(const RowBatch<T>& batch, const RowPart& part,
                                const StepRow<T>& row,
                                const FramedRule<Rule>& rule, bool updates,
                                ComputeType<T> zero) {
  using Elements = FramedElements<T, Rule>;
  const RowTable<T>& table = batch.tables[part.i];
  const auto& tensor = TensorOf<Rule>(batch, part.i);
  const int64_t begin = row.row * table.width;
  if (!updates) {
    for (int64_t c = part.member; c < table.width; c += table.group()) {
      const auto gradient = batch.template GradientOf<1>(part.i, row, c, zero);
      Elements::AccumulateAt(rule, tensor, begin + c,
                             GpuConvert::Widen(gradient.elements[0]));
    }
    return;
  }
  ForColumns(table, part.member, [&](int64_t c, auto pack) {
    constexpr int kPack = decltype(pack)::value;
    Elements::template UpdatePack<kPack>(
        rule, tensor, begin + c,
        batch.template GradientOf<kPack>(part.i, row, c, zero));
  });
}

// Applies the rule to rows.
template <typename T, typename Rule>
struct TakeRowsWork {
  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    RowPart part = batch.PartOf(rows, block, thread);
    if (part.k >= part.end) return;
    // All that doesn't depend on each other is requested before the first
    // branch, and the next row before this one is updated.
    const FramedRule<Rule> rule = rules[batch.first + part.i];
    StepRow<T> next = batch.RowAt(rows, part.i, part.k);
    const bool writes = batch.writes();
    const bool updates = batch.updates();
    // If there is nothing to accumulate, rows only caught up.
    if (!writes || (!updates && batch.catches_up())) return;
    for (; part.k < part.end; part.k += part.stride) {
      const StepRow<T> row = next;
      if (part.k + part.stride < part.end) {
        next = batch.RowAt(rows, part.i, part.k + part.stride);
      }
      if (row.row < 0) continue;
      if (part.member == 0) batch.Mark(rows, part.i, row.row);
      TakeRow(batch, part, row, rule, updates, 0);
    }
  }

  RowBatch<T> batch;
  GpuRules<Rule> rules;
  Rows rows;
};

// Applies a row-wise rule to rows, a warp each.
template <typename T, typename Rule>
struct TakeRowWiseWork {
  using V = ComputeType<T>;
  using Elements = FramedElements<T, Rule>;

  TF_OPT_RULE_INLINE GpuLanes AddUp(int64_t warp, int thread) const {
    GpuLanes lanes;
    const RowPart part = PartOf(warp, thread);
    const StepRow<T> row = RowOf(part);
    if (row.row < 0 || !batch.updates()) return lanes;
    const RowTable<T>& table = batch.tables[part.i];
    const FramedRule<Rule>& rule = rules[batch.first + part.i];
    const auto& tensor = TensorOf<Rule>(batch, part.i);
    lanes.kept = table.row_states[row.row];
    for (int64_t c = part.member * kLanesPerThread; c < table.width;
         c += kLanes) {
      for (int j = 0; j < kLanesPerThread && c + j < table.width; ++j) {
        const auto gradient =
            batch.template GradientOf<1>(part.i, row, c + j, zero());
        lanes.AddSquare(
            j, Elements::GradientAt(rule, tensor, row.row * table.width + c + j,
                                    GpuConvert::Widen(gradient.elements[0])));
      }
    }
    return lanes;
  }

  TF_OPT_RULE_INLINE void Finish(int64_t warp, int thread,
                                 const GpuLanes& lanes, double sum) const {
    const RowPart part = PartOf(warp, thread);
    const StepRow<T> row = RowOf(part);
    if (row.row < 0) return;
    const RowTable<T>& table = batch.tables[part.i];
    const bool updates = batch.updates();
    FramedRule<Rule> rule = rules[batch.first + part.i];
    if (updates) {
      V state = static_cast<V>(lanes.kept);
      rule.rule = rule.rule.ForRow(
          static_cast<V>(sum / static_cast<double>(table.width)), &state);
      if (part.member == 0) table.row_states[row.row] = state;
    }
    if (part.member == 0) batch.Mark(rows, part.i, row.row);
    TakeRow(batch, part, row, rule, updates, zero());
  }

  RowBatch<T> batch;
  GpuRules<Rule> rules;
  Rows rows;

 private:
  TF_OPT_RULE_INLINE V zero() const {
    return rows == Rows::kAll ? -V(0) : V(0);
  }
  TF_OPT_RULE_INLINE RowPart PartOf(int64_t warp, int thread) const {
    return batch.PartOf(
        rows, warp / kGpuWarps,
        static_cast<int>(warp % kGpuWarps) * kWarpThreads + thread);
  }
  // An empty row has no mean.
  TF_OPT_RULE_INLINE StepRow<T> RowOf(const RowPart& part) const {
    const bool exists = part.k < part.end && batch.tables[part.i].width > 0;
    if (!exists || !batch.writes()) return {};
    return batch.RowAt(rows, part.i, part.k);
  }
};

// Lets rows that wait catch up.
template <typename T, typename Rule>
struct CatchUpWork {
  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    if (!batch.catches_up()) return;
    ForCatchingUp(batch, block, thread, [&](const RowPart& part, int64_t row) {
      const RowTable<T>& table = batch.tables[part.i];
      const MissedSteps* const missed =
          MissedBy(table.since[row], table.missed, batch.waiting[part.i].count);
      if (missed == nullptr) return;
      const Coasting<ComputeType<T>> coasting(*missed);
      FramedRule<Rule> rule = rules[batch.first + part.i];
      static_cast<Frame<ComputeType<T>>&>(rule) = rule.ForCoasting();
      DenseTensor<T> tensor = TensorOf<Rule>(batch, part.i);
      tensor.operands[kAccumulator] = tensor.operands[kAverage] = nullptr;
      const int64_t begin = row * table.width;
      ForColumns(table, part.member, [&](int64_t c, auto pack) {
        FramedElements<T, Rule>::template CoastPack<decltype(pack)::value>(
            rule, coasting, tensor, begin + c);
      });
    });
  }

  RowBatch<T> batch;
  GpuRules<Rule> rules;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_ROWS_GPU_H_
