// Which rows of tables wait, for launches on a GPU: rules/coasting.h's
// WaitingRows, whose numbers the host doesn't know here. No rule is involved.
#ifndef TF_OPT_CC_ENGINES_GPU_WAITING_ROWS_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_WAITING_ROWS_GPU_H_

#include <cstdint>

#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/gpu/row_batch.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Counts the steps that rows of each table may have missed.
template <typename T>
struct CountMissedWork {
  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const int64_t i = block * kGpuThreads + thread;
    if (i >= step.batch.count) return;
    const RowTable<T>& table = step.batch.tables[i];
    const int64_t count = CountMissed(table.missed, table.slices.capacity);
    step.memory.waits[i] = {static_cast<int32_t>(count),
                            !lazy || count == table.slices.capacity};
  }

  RowStep<T> step;
  bool lazy;
};

// Marks all rows of the tables as up to date that all caught up.
template <typename T>
struct MarkAllWork {
  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    if (!step.catches_up()) return;
    for (int i = 0; i < step.batch.count; ++i) {
      const RowTable<T>& table = step.batch.tables[i];
      const WaitState waits = step.memory.waits[i];
      if (!waits.all_catch_up || waits.count == 0) continue;
      for (int64_t k = block * kGpuThreads + thread;
           k < table.slices.rows || k < waits.count;
           k += blocks * kGpuThreads) {
        if (k < table.slices.rows) table.since[k] = 0;
        if (k < waits.count) table.missed[k] = MissedSteps();
      }
    }
  }

  RowStep<T> step;
  int64_t blocks;
};

// Marks the rows that occur as up to date; the others miss this step, which is
// counted by a block for each table.
template <typename T>
struct MissStepWork {
  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    if (!step.catches_up()) return;
    const int more = step.updates() ? 1 : 0;
    RowPart part = PartOfThread(step.batch, Rows::kOccurring, block, thread);
    for (; part.k < part.end && part.lane == 0; part.k += part.stride) {
      const int64_t row = OccurringRow(step, part.i, part.k).row;
      if (row < 0) continue;
      step.batch.tables[part.i].since[row] =
          static_cast<float>(step.MissedSince(part.i) + more);
    }
    if (more == 0 || block >= step.batch.count) return;
    const int i = static_cast<int>(block);
    const int32_t count = step.MissedSince(i);
    MissedSteps* const missed = step.batch.tables[i].missed;
    for (int32_t k = thread; k <= count; k += kGpuThreads) {
      if (k == count) missed[k] = MissedSteps::None();
      missed[k].Add(step.memory.missed[i]);
    }
  }

  RowStep<T> step;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_WAITING_ROWS_GPU_H_
