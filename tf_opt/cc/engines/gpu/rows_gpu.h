// The row engine for GPUs: applies rules to rows of tables. Once sums are there
// (sum_rows_gpu.h), a row costs one pass over its variable and slots.
//
//   exact   the rows that occur, and then the others without a gradient
//   lazy    the rows that occur; they may first catch up with the steps that
//           they missed
#ifndef TF_OPT_CC_ENGINES_GPU_ROWS_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_ROWS_GPU_H_

#include <cstdint>
#include <type_traits>

#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/gpu/gpu_state.h"
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/gpu/row_batch.h"
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
template <typename T, typename Rule>
using TensorAtLayer =
    std::conditional_t<kStackedOf<Rule> == 0, const DenseTensor<T>&,
                       const DenseTensor<T>>;

template <typename T, typename Rule>
TF_OPT_RULE_INLINE TensorAtLayer<T, Rule> TensorOf(const RowStep<T>& step,
                                                   int i) {
  if constexpr (kStackedOf<Rule> == 0) {
    return step.batch.tables[i].tensor;
  } else {
    return step.batch.tables[i].tensor.AtLayer(kStackedOf<Rule>,
                                               step.memory.header->layer);
  }
}

// Calls use(c) for the columns of a thread's part of a row, kPack at a time.
template <int kPack, typename T, typename Use>
TF_OPT_RULE_INLINE void ForColumns(const RowTable<T>& table, int lane,
                                   const Use& use) {
  for (int64_t c = lane * kPack; c < table.width; c += table.lanes() * kPack) {
    use(c);
  }
}

// A row with its rule.
template <typename Convert, typename T, typename Rule>
struct FramedRow {
  using V = ComputeType<T>;
  using Elements = FramedElements<Convert, T, Rule>;

  // The gradient of kPack columns from c on.
  template <int kPack>
  TF_OPT_RULE_INLINE GpuPack<T, kPack> Gradient(int64_t c) const {
    GpuPack<T, kPack> gradient = {};
    if (row.gradient == nullptr) return gradient;
    gradient.Load(row.gradient + c);
    TF_OPT_UNROLL
    for (int j = 0; j < kPack; ++j) {
      gradient.elements[j] =
          Convert::Narrow(Convert::Widen(gradient.elements[j]) + zero, T());
    }
    return gradient;
  }

  // Updates a thread's part of it, or only accumulates.
  TF_OPT_RULE_INLINE void Take(bool updates, int lane) const {
    const int64_t begin = row.row * table.width;
    if (!updates) {
      ForColumns<1>(table, lane, [&](int64_t c) {
        const GpuPack<T, 1> gradient = Gradient<1>(c);
        Elements::AccumulateAt(rule, tensor, begin + c,
                               Convert::Widen(gradient.elements[0]));
      });
    } else if (table.packs) {
      constexpr int kPack = kGpuPackOf<T>;
      ForColumns<kPack>(table, lane, [&](int64_t c) {
        Elements::template UpdatePack<kPack>(rule, tensor, begin + c,
                                             Gradient<kPack>(c));
      });
    } else {
      ForColumns<1>(table, lane, [&](int64_t c) {
        Elements::template UpdatePack<1>(rule, tensor, begin + c,
                                         Gradient<1>(c));
      });
    }
  }

  const RowTable<T>& table;
  TensorAtLayer<T, Rule> tensor;
  const StepRow<T>& row;
  const FramedRule<Rule>& rule;
  V zero;  // 0 for a sum, which is never -0; -0 changes nothing.
};

// Applies the rule to rows.
template <typename Device, typename T, typename Rule>
struct TakeRowsWork {
  using V = ComputeType<T>;
  using Row = FramedRow<typename Device::Convert, T, Rule>;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    RowPart part = PartOfThread(step.batch, rows, block, thread);
    if (part.k >= part.end) return;
    // All that doesn't depend on each other is requested before the first
    // branch, and the next row before this one is updated.
    const FramedRule<Rule> rule = rules[step.batch.first + part.i];
    StepRow<T> next = RowAt(step, rows, part.i, part.k);
    const bool writes = step.writes();
    const bool updates = step.updates();
    // If there is nothing to accumulate, rows only caught up.
    if (!writes || (!updates && step.catches_up())) return;
    const TensorAtLayer<T, Rule> tensor = TensorOf<T, Rule>(step, part.i);
    for (; part.k < part.end; part.k += part.stride) {
      const StepRow<T> row = next;
      if (part.k + part.stride < part.end) {
        next = RowAt(step, rows, part.i, part.k + part.stride);
      }
      if (row.row < 0) continue;
      Row{step.batch.tables[part.i], tensor, row, rule, V(0)}.Take(updates,
                                                                   part.lane);
    }
  }

  RowStep<T> step;
  GpuRules<Rule> rules;
  Rows rows;
};

// Applies a row-wise rule to rows, a warp each.
template <typename Device, typename T, typename Rule>
struct TakeRowWiseWork {
  using V = ComputeType<T>;
  using Row = FramedRow<typename Device::Convert, T, Rule>;

  TF_OPT_RULE_INLINE GpuLanes AddUp(int64_t warp, int thread) const {
    GpuLanes lanes;
    const RowPart part = PartOf(warp, thread);
    if (part.k >= part.end || !step.writes() || !step.updates()) return lanes;
    const StepRow<T> row = RowAt(step, rows, part.i, part.k);
    if (row.row < 0) return lanes;
    const RowTable<T>& table = step.batch.tables[part.i];
    const FramedRule<Rule>& rule = rules[step.batch.first + part.i];
    const Row framed = RowWith(table, part.i, row, rule);
    lanes.kept = table.row_states[row.row];
    for (int64_t c = part.lane * kLanesPerThread; c < table.width;
         c += kLanes) {
      for (int j = 0; j < kLanesPerThread && c + j < table.width; ++j) {
        const auto gradient = framed.template Gradient<1>(c + j);
        lanes.sums[j] += Square(Row::Elements::GradientAt(
            rule, framed.tensor, row.row * table.width + c + j,
            Device::Convert::Widen(gradient.elements[0])));
      }
    }
    return lanes;
  }

  TF_OPT_RULE_INLINE void Finish(int64_t warp, int thread,
                                 const GpuLanes& lanes, double sum) const {
    const RowPart part = PartOf(warp, thread);
    if (part.k >= part.end || !step.writes()) return;
    const StepRow<T> row = RowAt(step, rows, part.i, part.k);
    if (row.row < 0) return;
    const RowTable<T>& table = step.batch.tables[part.i];
    const bool updates = step.updates();
    FramedRule<Rule> rule = rules[step.batch.first + part.i];
    if (updates) {
      V state = static_cast<V>(lanes.kept);
      rule.rule = rule.rule.ForRow(
          static_cast<V>(sum / static_cast<double>(table.width)), &state);
      if (part.lane == 0) table.row_states[row.row] = state;
    }
    RowWith(table, part.i, row, rule).Take(updates, part.lane);
  }

  RowStep<T> step;
  GpuRules<Rule> rules;
  Rows rows;

 private:
  TF_OPT_RULE_INLINE Row RowWith(const RowTable<T>& table, int i,
                                 const StepRow<T>& row,
                                 const FramedRule<Rule>& rule) const {
    return {table, TensorOf<T, Rule>(step, i), row, rule,
            rows == Rows::kAll ? -V(0) : V(0)};
  }
  TF_OPT_RULE_INLINE RowPart PartOf(int64_t warp, int thread) const {
    RowPart part = PartOfThread(
        step.batch, rows, warp / kGpuWarps,
        static_cast<int>(warp % kGpuWarps) * kWarpThreads + thread);
    // An empty row has no mean.
    if (step.batch.tables[part.i].width == 0) part.end = 0;
    return part;
  }
};

// Blocks that go through all rows, which is seldom necessary.
constexpr int64_t kBlocksOverAllRows = 1024;

// Lets rows that wait catch up: those that occur or, where it must be, all.
template <typename Device, typename T, typename Rule>
struct CatchUpWork {
  using V = ComputeType<T>;
  using Elements = FramedElements<typename Device::Convert, T, Rule>;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    if (!step.catches_up()) return;
    RowPart part = PartOfThread(step.batch, Rows::kOccurring, block, thread);
    for (; part.k < part.end; part.k += part.stride) {
      if (step.memory.waits[part.i].all_catch_up) break;
      const StepRow<T> row = OccurringRow(step, part.i, part.k);
      if (row.row >= 0) CatchUp(part, row.row);
    }
    if (block >= kBlocksOverAllRows) return;
    const int64_t* const ends = step.batch.row_block_ends;
    for (int i = 0; i < step.batch.count; ++i) {
      if (!step.memory.waits[i].all_catch_up) continue;
      for (int64_t b = (i == 0 ? 0 : ends[i - 1]) + block; b < ends[i];
           b += kBlocksOverAllRows) {
        part = PartOfThread(step.batch, Rows::kAll, b, thread);
        for (; part.k < part.end; part.k += part.stride) CatchUp(part, part.k);
      }
    }
  }

  RowStep<T> step;
  GpuRules<Rule> rules;

 private:
  TF_OPT_RULE_INLINE void CatchUp(const RowPart& part, int64_t row) const {
    const RowTable<T>& table = step.batch.tables[part.i];
    const MissedSteps* const missed = MissedBy(table.since[row], table.missed,
                                               step.memory.waits[part.i].count);
    if (missed == nullptr) return;
    const Coasting<V> coasting(*missed);
    FramedRule<Rule> rule = rules[step.batch.first + part.i];
    static_cast<Frame<V>&>(rule) = rule.ForCoasting();
    DenseTensor<T> tensor = TensorOf<T, Rule>(step, part.i);
    tensor.operands[kAccumulator] = tensor.operands[kAverage] = nullptr;
    const int64_t begin = row * table.width;
    if (table.packs) {
      constexpr int kPack = kGpuPackOf<T>;
      ForColumns<kPack>(table, part.lane, [&](int64_t c) {
        Elements::template CoastPack<kPack>(rule, coasting, tensor, begin + c);
      });
    } else {
      ForColumns<1>(table, part.lane, [&](int64_t c) {
        Elements::template CoastPack<1>(rule, coasting, tensor, begin + c);
      });
    }
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_ROWS_GPU_H_
