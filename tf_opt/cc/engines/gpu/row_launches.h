// The launches over rows of tables, in a stream's order. Nothing is read back
// and nothing waited for.
#ifndef TF_OPT_CC_ENGINES_GPU_ROW_LAUNCHES_H_
#define TF_OPT_CC_ENGINES_GPU_ROW_LAUNCHES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/gpu/row_batch.h"
#include "tf_opt/cc/engines/gpu/row_sort.h"
#include "tf_opt/cc/engines/gpu/rows_gpu.h"

namespace tf_opt {

// The tables of a step in batches, and the device memory that they need.
template <typename T>
class RowPlan {
 public:
  // With `marks`, the rows that occur get a bit each. The tables' `sums` are
  // set by LayOut.
  RowPlan(const std::vector<RowTable<T>>& tables, bool warp_a_row, bool marks)
      : marks_(marks) {
    constexpr uint32_t kMostKeys = ~0u - 1;
    for (const RowTable<T>& table : tables) {
      if (batches.empty() || batches.back().count == RowBatch<T>::kCapacity ||
          table.slices.rows >= kMostKeys - batches.back().keys) {
        batches.emplace_back();
        batches.back().first = static_cast<int>(&table - tables.data());
        batches.back().first_entry = entries;
      }
      AddTable(table, warp_a_row, &batches.back());
      entries += table.slices.entries();
    }
  }

  // Returns the bytes of device memory that all launches need, a multiple of
  // any alignment; sets what lies where if there is a workspace.
  std::size_t LayOut(void* workspace) {
    constexpr std::size_t kAlignment = 256;
    std::size_t bytes = 0;
    const auto take = [&](auto** array, int64_t count) {
      char* const begin = static_cast<char*>(workspace);
      using Element =
          std::remove_pointer_t<std::remove_reference_t<decltype(*array)>>;
      if (workspace != nullptr) {
        *array = reinterpret_cast<Element*>(begin + bytes);
      }
      bytes +=
          (count * sizeof(Element) + kAlignment - 1) / kAlignment * kAlignment;
    };
    RowMemory all;
    take(&all.bad, 1 + static_cast<int64_t>(batches.size()));
    take(&all.keys, entries);
    take(&all.positions, entries);
    take(&all.other_keys, entries);
    take(&all.other_positions, entries);
    take(&all.long_segments, entries / kLongSegment);
    take(&missed,
         batches.empty() ? 0 : batches.back().first + batches.back().count);
    memory.clear();
    sort_room_bytes = 0;
    for (RowBatch<T>& batch : batches) {
      RowMemory& own = memory.emplace_back(all);
      own.long_count = all.bad + memory.size();
      own.missed = missed + batch.first;
      for (uint32_t** const array :
           {&own.keys, &own.positions, &own.other_keys, &own.other_positions}) {
        *array += batch.first_entry;
      }
      if (marks_) take(&own.occurring, WordsOf(batch));
      take(&own.waits, batch.count);
      for (int i = 0; i < batch.count; ++i) {
        RowTable<T>& table = batch.tables[i];
        take(&table.sums, table.slices.count * table.width);
      }
      sort_room_bytes =
          std::max(sort_room_bytes, SortRoomBytes(batch.entries()));
    }
    take(&sort_room, sort_room_bytes);
    return bytes;
  }

  // What the launches over a batch take.
  RowStep<T> StepOf(std::size_t batch) const {
    return {batches[batch], memory[batch]};
  }
  static int64_t EntryBlocks(const RowBatch<T>& batch) {
    return batch.entry_block_ends[batch.count - 1];
  }
  static int64_t RowBlocks(const RowBatch<T>& batch) {
    return batch.row_block_ends[batch.count - 1];
  }
  static int64_t WordsOf(const RowBatch<T>& batch) {
    return batch.keys / 32 + 1;
  }

  std::vector<RowBatch<T>> batches;
  std::vector<RowMemory> memory;  // Of each batch.
  int64_t entries = 0;
  MissedStep* missed = nullptr;  // Of each table.
  char* sort_room = nullptr;
  std::size_t sort_room_bytes = 0;

 private:
  const bool marks_;
};

// Without a rule, and therefore compiled once (rows_on_gpu.cc): sorts the
// entries of all batches and sums those of the same row. A bad row is seen by
// all launches.
template <typename T, typename Device>
void SortAndSum(RowPlan<T>* plan, BadRow* report, Device* device);
// The same before rows catch up, ...
template <typename T, typename Device>
void BeginCatchUp(const RowStep<T>& step, bool lazy, Device* device);
// ... once they did, ...
template <typename T, typename Device>
void EndCatchUp(const RowStep<T>& step, Device* device);
// ... and once they are updated.
template <typename T, typename Device>
void MissStep(const RowStep<T>& step, Device* device);

// A step over the plan's tables, with rules that are made already.
template <typename Rule, typename Device, typename T>
void ApplyRows(const GpuRowOptions& how, const GpuRules<Rule>& rules,
               RowPlan<T>* plan, Device* device) {
  SortAndSum(plan, how.report, device);
  for (std::size_t b = 0; b < plan->batches.size(); ++b) {
    const RowStep<T> step = plan->StepOf(b);
    const int64_t entry_blocks = plan->EntryBlocks(step.batch);
    const int64_t row_blocks = plan->RowBlocks(step.batch);
    const auto take = [&](Rows rows, int64_t blocks) {
      if constexpr (Rule::kRowWise) {
        device->template RunWarps<3>(
            TakeRowWiseWork<Device, T, Rule>{step, rules, rows},
            blocks * kGpuWarps);
      } else {
        device->template Run<3>(
            TakeRowsWork<Device, T, Rule>{step, rules, rows}, blocks);
      }
    };
    if constexpr (Rule::Description::kCoasts) {
      if (how.waits) {
        BeginCatchUp(step, how.lazy, device);
        device->template Run<2>(
            CatchUpWork<Device, T, Rule>{step, rules},
            std::max(entry_blocks, std::min(row_blocks, kBlocksOverAllRows)));
        EndCatchUp(step, device);
      }
    }
    take(Rows::kOccurring, entry_blocks);
    if (!how.lazy) take(how.sparse ? Rows::kOthers : Rows::kAll, row_blocks);
    if (how.waits && how.lazy) MissStep(step, device);
  }
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_ROW_LAUNCHES_H_
