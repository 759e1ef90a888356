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

// What all works of a step share.
template <typename T, typename Rule>
struct RowStep {
  // Whether the step writes anything at all.
  TF_OPT_RULE_INLINE bool writes() const {
    return (*memory.bad == 0) & rules.writes();
  }
  // Whether rows catch up: not while gradients are accumulated.
  TF_OPT_RULE_INLINE bool catches_up() const {
    return writes() &&
           (rules.updates() || batch.tables[0].tensor.accumulator() == nullptr);
  }
  TF_OPT_RULE_INLINE TensorAtLayer<T, Rule> TensorOf(int i) const {
    if constexpr (kStackedOf<Rule> == 0) {
      return batch.tables[i].tensor;
    } else {
      return batch.tables[i].tensor.AtLayer(kStackedOf<Rule>, rules.layer());
    }
  }

  RowBatch<T> batch;
  RowMemory memory;
  GpuRules<Rule> rules;
};

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

  // The gradient of kPack columns from c on. As a sum it is never -0.
  template <int kPack, bool kSum>
  TF_OPT_RULE_INLINE GpuPack<T, kPack> Gradient(int64_t c) const {
    GpuPack<T, kPack> gradient = {};
    if (row.gradient == nullptr) return gradient;
    gradient.Load(row.gradient + c);
    TF_OPT_UNROLL
    for (int j = 0; kSum && j < kPack; ++j) {
      gradient.elements[j] =
          Convert::Narrow(Convert::Widen(gradient.elements[j]) + V(0), T());
    }
    return gradient;
  }

  // Updates a thread's part of it, or only accumulates.
  template <bool kSum>
  TF_OPT_RULE_INLINE void Take(bool updates, int lane) const {
    const int64_t begin = row.row * table.width;
    if (!updates) {
      ForColumns<1>(table, lane, [&](int64_t c) {
        const GpuPack<T, 1> gradient = Gradient<1, kSum>(c);
        Elements::AccumulateAt(rule, tensor, begin + c,
                               Convert::Widen(gradient.elements[0]));
      });
    } else if (table.packs) {
      constexpr int kPack = kGpuPackOf<T>;
      ForColumns<kPack>(table, lane, [&](int64_t c) {
        Elements::template UpdatePack<kPack>(rule, tensor, begin + c,
                                             Gradient<kPack, kSum>(c));
      });
    } else {
      ForColumns<1>(table, lane, [&](int64_t c) {
        Elements::template UpdatePack<1>(rule, tensor, begin + c,
                                         Gradient<1, kSum>(c));
      });
    }
  }

  const RowTable<T>& table;
  TensorAtLayer<T, Rule> tensor;
  const StepRow<T> row;
  FramedRule<Rule> rule;
};

// Applies the rule to rows.
template <typename Device, typename T, typename Rule, typename Rows>
struct TakeRowsWork {
  static constexpr int kBlocks = 3;
  using Row = FramedRow<typename Device::Convert, T, Rule>;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const Rows rows = {step.memory};
    const RowPart part = PartOfThread(step.batch, rows, block, thread);
    if (part.k < 0) return;
    // All that doesn't depend on each other is loaded before the first branch:
    // a row waits for memory twice.
    const Row row = {step.batch.tables[part.i], step.TensorOf(part.i),
                     rows.At(step.batch, part.i, part.k),
                     step.rules[step.batch.first + part.i]};
    const bool writes = step.writes();
    const bool updates = step.rules.updates();
    if (row.row.row < 0 || !writes) return;
    // If there is nothing to accumulate, rows only caught up.
    if (!updates && step.catches_up()) return;
    row.template Take<Rows::kOccur>(updates, part.lane);
  }

  RowStep<T, Rule> step;
};

// Applies a row-wise rule to rows, a warp each.
template <typename Device, typename T, typename Rule, typename Rows>
struct TakeRowWiseWork {
  static constexpr int kBlocks = 3;
  using V = ComputeType<T>;
  using Row = FramedRow<typename Device::Convert, T, Rule>;

  TF_OPT_RULE_INLINE GpuLanes AddUp(int64_t warp, int thread) const {
    GpuLanes lanes;
    const RowPart part = PartOf(warp, thread);
    if (part.k < 0) return lanes;
    const Row row = RowOf(part);
    if (row.row.row < 0 || !step.writes() || !step.rules.updates()) {
      return lanes;
    }
    lanes.kept = row.table.row_states[row.row.row];
    const int64_t width = row.table.width;
    for (int64_t c = part.lane * kLanesPerThread; c < width; c += kLanes) {
      for (int j = 0; j < kLanesPerThread && c + j < width; ++j) {
        const auto gradient = row.template Gradient<1, Rows::kOccur>(c + j);
        lanes.sums[j] += Square(Row::Elements::GradientAt(
            row.rule, row.tensor, row.row.row * width + c + j,
            Device::Convert::Widen(gradient.elements[0])));
      }
    }
    return lanes;
  }

  TF_OPT_RULE_INLINE void Finish(int64_t warp, int thread,
                                 const GpuLanes& lanes, double sum) const {
    const RowPart part = PartOf(warp, thread);
    if (part.k < 0) return;
    Row row = RowOf(part);
    if (row.row.row < 0 || !step.writes()) return;
    const bool updates = step.rules.updates();
    if (updates) {
      V state = static_cast<V>(lanes.kept);
      row.rule.rule = row.rule.rule.ForRow(
          static_cast<V>(sum / static_cast<double>(row.table.width)), &state);
      if (part.lane == 0) row.table.row_states[row.row.row] = state;
    }
    row.template Take<Rows::kOccur>(updates, part.lane);
  }

  RowStep<T, Rule> step;

 private:
  TF_OPT_RULE_INLINE RowPart PartOf(int64_t warp, int thread) const {
    RowPart part = PartOfThread(
        step.batch, Rows{step.memory}, warp / kGpuWarps,
        static_cast<int>(warp % kGpuWarps) * kWarpThreads + thread);
    // An empty row has no mean.
    if (step.batch.tables[part.i].width == 0) part.k = -1;
    return part;
  }
  TF_OPT_RULE_INLINE Row RowOf(const RowPart& part) const {
    return {step.batch.tables[part.i], step.TensorOf(part.i),
            Rows{step.memory}.At(step.batch, part.i, part.k),
            step.rules[step.batch.first + part.i]};
  }
};

// ---- Rows that wait. ----

// Counts the steps that rows of each table may have missed.
template <typename T, typename Rule>
struct CountMissedWork {
  static constexpr int kBlocks = 1;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const int64_t i = block * kGpuThreads + thread;
    if (i >= step.batch.count) return;
    const RowTable<T>& table = step.batch.tables[i];
    const int64_t count = CountMissed(table.missed, table.slices.capacity);
    step.memory.waits[i] = {static_cast<int32_t>(count),
                            !lazy || count == table.slices.capacity};
  }

  RowStep<T, Rule> step;
  bool lazy;
};

// Lets a thread's part of a row catch up.
template <typename Device, typename T, typename Rule>
TF_OPT_RULE_INLINE void CatchUpRow(const RowStep<T, Rule>& step, int i,
                                   int64_t row, int lane) {
  using Elements = FramedElements<typename Device::Convert, T, Rule>;
  using V = ComputeType<T>;
  const RowTable<T>& table = step.batch.tables[i];
  const MissedSteps* const missed =
      MissedBy(table.since[row], table.missed, step.memory.waits[i].count);
  if (missed == nullptr) return;
  const Coasting<V> coasting(*missed);
  FramedRule<Rule> rule = step.rules[step.batch.first + i];
  static_cast<Frame<V>&>(rule) = rule.ForCoasting();
  DenseTensor<T> tensor = step.TensorOf(i);
  tensor.operands[kAccumulator] = tensor.operands[kAverage] = nullptr;
  const int64_t begin = row * table.width;
  if (table.packs) {
    constexpr int kPack = kGpuPackOf<T>;
    ForColumns<kPack>(table, lane, [&](int64_t c) {
      Elements::template CoastPack<kPack>(rule, coasting, tensor, begin + c);
    });
  } else {
    ForColumns<1>(table, lane, [&](int64_t c) {
      Elements::template CoastPack<1>(rule, coasting, tensor, begin + c);
    });
  }
}

// Lets the rows that occur catch up.
template <typename Device, typename T, typename Rule>
struct CatchUpWork {
  static constexpr int kBlocks = 3;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const OccurringRows<T> rows = {step.memory};
    const RowPart part = PartOfThread(step.batch, rows, block, thread);
    if (part.k < 0) return;
    const StepRow<T> row = rows.At(step.batch, part.i, part.k);
    if (row.row < 0 || !step.catches_up()) return;
    if (step.memory.waits[part.i].all_catch_up) return;
    CatchUpRow<Device>(step, part.i, row.row, part.lane);
  }

  RowStep<T, Rule> step;
};

// Blocks that go through all rows, which is seldom necessary.
constexpr int64_t kBlocksOverAllRows = 1024;

// Lets all rows of a table catch up, if they must.
template <typename Device, typename T, typename Rule>
struct CatchUpAllWork {
  static constexpr int kBlocks = 3;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    if (!step.catches_up()) return;
    const int64_t blocks = step.batch.row_block_ends[step.batch.count - 1];
    for (; block < blocks; block += kBlocksOverAllRows) {
      const RowPart part =
          PartOfThread(step.batch, OtherRows<T>(), block, thread);
      if (part.k < 0 || !step.memory.waits[part.i].all_catch_up) continue;
      CatchUpRow<Device>(step, part.i, part.k, part.lane);
    }
  }

  RowStep<T, Rule> step;
};

// Marks all rows of these tables as up to date.
template <typename T, typename Rule>
struct MarkAllWork {
  static constexpr int kBlocks = 1;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    if (!step.catches_up()) return;
    for (int i = 0; i < step.batch.count; ++i) {
      const RowTable<T>& table = step.batch.tables[i];
      const WaitState waits = step.memory.waits[i];
      if (!waits.all_catch_up || waits.count == 0) continue;
      for (int64_t k = block * kGpuThreads + thread;
           k < table.slices.rows || k < waits.count;
           k += kBlocksOverAllRows * kGpuThreads) {
        if (k < table.slices.rows) table.since[k] = 0;
        if (k < waits.count) table.missed[k] = MissedSteps();
      }
    }
  }

  RowStep<T, Rule> step;
};

// Counts this step among those that rows of a table miss, a block each.
template <typename T, typename Rule>
struct MissStepWork {
  static constexpr int kBlocks = 1;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    if (!step.catches_up() || !step.rules.updates()) return;
    const int i = static_cast<int>(block);
    const RowTable<T>& table = step.batch.tables[i];
    const WaitState waits = step.memory.waits[i];
    const int count = waits.all_catch_up ? 0 : waits.count;
    const MissedStep missed = MissedStepOf<Rule>(
        typename Rule::Scalars(inputs.scalars.Read()), inputs.frame.Read(),
        inputs.variables[step.batch.first + i]);
    for (int k = thread; k <= count; k += kGpuThreads) {
      if (k == count) table.missed[k] = MissedSteps::None();
      table.missed[k].Add(missed);
    }
  }

  RowStep<T, Rule> step;
  GpuStepInputs<typename Rule::Description> inputs;
};

// Marks the rows that occur as up to date.
template <typename T, typename Rule>
struct MarkWork {
  static constexpr int kBlocks = 1;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const OccurringRows<T> rows = {step.memory};
    const RowPart part = PartOfThread(step.batch, rows, block, thread);
    if (part.k < 0 || part.lane != 0) return;
    const StepRow<T> row = rows.At(step.batch, part.i, part.k);
    if (row.row < 0 || !step.catches_up()) return;
    const WaitState waits = step.memory.waits[part.i];
    const int count =
        (waits.all_catch_up ? 0 : waits.count) + (step.rules.updates() ? 1 : 0);
    step.batch.tables[part.i].since[row.row] = static_cast<float>(count);
  }

  RowStep<T, Rule> step;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_ROWS_GPU_H_
