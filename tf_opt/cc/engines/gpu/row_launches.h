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
#include "tf_opt/cc/engines/gpu/sum_rows_gpu.h"

namespace tf_opt {

// Of arrays in a workspace, in bytes.
constexpr std::size_t kRowAlignment = 256;

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

  // Returns the bytes of device memory that all launches need; sets what lies
  // where if there is `memory`.
  std::size_t LayOut(void* memory) {
    std::size_t bytes = 0;
    const auto take = [&](auto** array, int64_t count) {
      char* const begin = static_cast<char*>(memory);
      using Element =
          std::remove_pointer_t<std::remove_reference_t<decltype(*array)>>;
      if (memory != nullptr) {
        *array = reinterpret_cast<Element*>(begin + bytes);
      }
      bytes += (count * sizeof(Element) + kRowAlignment - 1) / kRowAlignment *
               kRowAlignment;
    };
    const auto batch_count = static_cast<int64_t>(batches.size());
    RowMemory all;
    take(&all.bad, 1 + batch_count);
    cleared_ = all.bad;
    take(&all.keys, entries);
    take(&all.positions, entries);
    take(&all.other_keys, entries);
    take(&all.other_positions, entries);
    take(&all.long_segments, entries / kLongSegment);
    memory_.clear();
    int64_t most_entries = 0;
    for (RowBatch<T>& batch : batches) {
      RowMemory& own = memory_.emplace_back(all);
      own.long_count = all.bad + memory_.size();
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
      most_entries = std::max(most_entries, batch.entries());
    }
    char* room = nullptr;
    take(&room, entries > 0 ? SortRoomBytes(most_entries) : 0);
    room_ = room;
    return bytes;
  }

  // Sorts the entries of all batches and sums those of the same row. A bad row
  // is seen by all launches.
  template <typename Device>
  void SortAndSum(BadRow* report, Device* device) {
    device->Clear(cleared_, (1 + batches.size()) * sizeof(uint32_t));
    for (std::size_t b = 0; b < batches.size(); ++b) {
      const RowBatch<T>& batch = batches[b];
      if (marks_) {
        device->Clear(memory_[b].occurring, WordsOf(batch) * sizeof(uint32_t));
      }
      device->Run(MakeKeysWork<Device, T>{batch, memory_[b], entries},
                  BlocksOf(batch.entries()));
    }
    for (std::size_t b = 0; b < batches.size(); ++b) {
      const RowBatch<T>& batch = batches[b];
      RowMemory& own = memory_[b];
      if (batch.entries() == 0) continue;
      int bits = 1;
      while (bits < 32 && (batch.keys - 1) >> bits > 0) ++bits;
      if (device->error() == nullptr) {
        device->Note(SortKeys(batch.entries(), bits, &own.keys, &own.other_keys,
                              &own.positions, &own.other_positions, room_,
                              device->stream()));
      }
      device->Run(SumRowsWork<Device, T>{batch, own, entries, report},
                  EntryBlocks(batch));
      int64_t columns = 1;
      for (int i = 0; i < batch.count; ++i) {
        columns = std::max(columns, batch.tables[i].width);
      }
      constexpr int64_t kColumns = SumLongRowsWork<Device, T>::kColumns;
      device->RunStages(SumLongRowsWork<Device, T>{
          batch, own, (columns + kColumns - 1) / kColumns});
    }
  }

  static int64_t EntryBlocks(const RowBatch<T>& batch) {
    return batch.entry_block_ends[batch.count - 1];
  }
  static int64_t RowBlocks(const RowBatch<T>& batch) {
    return batch.row_block_ends[batch.count - 1];
  }
  const RowMemory& memory_of(std::size_t batch) const { return memory_[batch]; }
  void* room() const { return room_; }

  std::vector<RowBatch<T>> batches;
  int64_t entries = 0;

 private:
  static int64_t WordsOf(const RowBatch<T>& batch) {
    return batch.keys / 32 + 1;
  }

  const bool marks_;
  std::vector<RowMemory> memory_;  // Of each batch.
  void* cleared_ = nullptr;
  void* room_ = nullptr;
};

// Applies a rule to rows of the plan's tables.
template <typename Rule, typename Rows, typename Device, typename T>
void TakeRows(const RowStep<T, Rule>& step, int64_t blocks, Device* device) {
  if constexpr (Rule::kRowWise) {
    device->RunWarps(TakeRowWiseWork<Device, T, Rule, Rows>{step},
                     blocks * kGpuWarps);
  } else {
    device->Run(TakeRowsWork<Device, T, Rule, Rows>{step}, blocks);
  }
}

// A step over the plan's tables, with rules that are made already.
template <typename Rule, typename Device, typename T>
void ApplyRows(const GpuRowOptions& how,
               const GpuStepInputs<typename Rule::Description>& inputs,
               const GpuRules<Rule>& rules, RowPlan<T>* plan, Device* device) {
  plan->SortAndSum(how.report, device);
  for (std::size_t b = 0; b < plan->batches.size(); ++b) {
    const RowBatch<T>& batch = plan->batches[b];
    const RowStep<T, Rule> step = {batch, plan->memory_of(b), rules};
    const int64_t entry_blocks = plan->EntryBlocks(batch);
    const int64_t row_blocks = plan->RowBlocks(batch);
    if constexpr (Rule::Description::kCoasts) {
      if (how.waits) {
        const int64_t most_blocks = std::min(row_blocks, kBlocksOverAllRows);
        device->Run(CountMissedWork<T, Rule>{step, how.lazy},
                    BlocksOf(batch.count));
        device->Run(CatchUpAllWork<Device, T, Rule>{step}, most_blocks);
        device->Run(MarkAllWork<T, Rule>{step}, kBlocksOverAllRows);
        device->Run(CatchUpWork<Device, T, Rule>{step}, entry_blocks);
      }
    }
    TakeRows<Rule, OccurringRows<T>>(step, entry_blocks, device);
    if (!how.lazy) TakeRows<Rule, OtherRows<T>>(step, row_blocks, device);
    if constexpr (Rule::Description::kCoasts) {
      if (how.waits && how.lazy) {
        device->Run(MissStepWork<T, Rule>{step, inputs}, batch.count);
        device->Run(MarkWork<T, Rule>{step}, entry_blocks);
      }
    }
  }
}

// Writes the rows that occur in the plan's tables, and their sums.
template <typename Device, typename T>
void MergeRows(const std::vector<MergedOutput<T>>& outputs, BadRow* report,
               RowPlan<T>* plan, Device* device) {
  plan->SortAndSum(report, device);
  for (std::size_t b = 0; b < plan->batches.size(); ++b) {
    const RowBatch<T>& batch = plan->batches[b];
    if (batch.entries() == 0) continue;
    const RowMemory& memory = plan->memory_of(b);
    // The other arrays of the sort are free.
    device->Run(MarkSegmentsWork<T>{batch, memory, memory.other_keys},
                BlocksOf(batch.entries()));
    if (device->error() == nullptr) {
      device->Note(AddUpTo(batch.entries(), memory.other_keys,
                           memory.other_positions, plan->room(),
                           device->stream()));
    }
    WriteMergedWork<Device, T> work = {batch, memory, memory.other_positions};
    std::copy_n(outputs.begin() + batch.first, batch.count, work.outputs);
    device->Run(work, plan->EntryBlocks(batch));
  }
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_ROW_LAUNCHES_H_
