// Which rows of tables wait, for launches on a GPU: rules/coasting.h's
// WaitingRows, whose numbers the host doesn't know here. No rule is involved.
#ifndef TF_OPT_CC_ENGINES_GPU_WAITING_ROWS_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_WAITING_ROWS_GPU_H_

#include <algorithm>
#include <cstdint>

#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/gpu/row_batch.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Blocks that go through all rows, which is seldom necessary.
constexpr int64_t kBlocksOverAllRows = 1024;

// Blocks for ForCatchingUp.
template <typename T>
int64_t BlocksCatchingUp(const RowBatch<T>& batch) {
  return std::max(batch.blocks(Rows::kOccurring),
                  std::min(batch.blocks(Rows::kAll), kBlocksOverAllRows));
}

// Calls use(part, row) for a thread's rows that catch up: those that occur or,
// where it must be, all.
template <typename T, typename Use>
TF_OPT_RULE_INLINE void ForCatchingUp(const RowBatch<T>& batch, int64_t block,
                                      int thread, const Use& use) {
  RowPart part = batch.PartOf(Rows::kOccurring, block, thread);
  for (; part.k < part.end; part.k += part.stride) {
    if (batch.waiting[part.i].all_catch_up) break;
    const int64_t row = batch.Occurring(part.i, part.k).row;
    if (row >= 0) use(part, row);
  }
  if (block >= kBlocksOverAllRows) return;
  const int64_t* const ends = batch.row_block_ends;
  for (int i = 0; i < batch.count; ++i) {
    if (!batch.waiting[i].all_catch_up || batch.waiting[i].count == 0) continue;
    for (int64_t b = (i == 0 ? 0 : ends[i - 1]) + block; b < ends[i];
         b += kBlocksOverAllRows) {
      part = batch.PartOf(Rows::kAll, b, thread);
      for (; part.k < part.end; part.k += part.stride) use(part, part.k);
    }
  }
}

// Marks the rows that caught up as up to date. If the step is lazy and updates,
// the others miss it, which is counted by a block for each table.
template <typename T>
struct MarkWaitingWork {
  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    if (!batch.catches_up()) return;
    const int more = lazy && batch.updates() ? 1 : 0;
    ForCatchingUp(batch, block, thread, [&](const RowPart& part, int64_t row) {
      if (part.member != 0) return;
      const WaitState state = batch.waiting[part.i];
      const bool misses = state.all_catch_up && !Occurs(part.i, row);
      batch.tables[part.i].since[row] =
          static_cast<float>(state.left() + (misses ? 0 : more));
    });
    if (block >= batch.count) return;
    const WaitState state = batch.waiting[block];
    MissedSteps* const missed = batch.tables[block].missed;
    const int32_t count = state.left() + more;
    for (int32_t k = thread; k < state.count || k < count; k += kGpuThreads) {
      if (k >= count) {
        missed[k] = MissedSteps();
      } else if (more > 0) {
        if (k == state.left()) missed[k] = MissedSteps::None();
        missed[k].Add(batch.missed[block]);
      }
    }
  }

  RowBatch<T> batch;
  bool lazy;

 private:
  TF_OPT_RULE_INLINE bool Occurs(int i, int64_t row) const {
    const uint32_t key = batch.tables[i].key_begin + static_cast<uint32_t>(row);
    const uint32_t* const keys = batch.keys + batch.entry_begin(i);
    const int64_t k = FirstWhere(batch.entries_of(i),
                                 [&](int64_t k) { return keys[k] >= key; });
    return k < batch.entries_of(i) && keys[k] == key;
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_WAITING_ROWS_GPU_H_
