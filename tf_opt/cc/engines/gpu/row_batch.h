// Tables with gradients of some rows, for launches on a GPU.
//
// The rows of all tables of a batch are sorted at once, by keys: a row's
// number, counted through all tables. The host knows how many entries a table
// has, so it knows where the sorted entries of each table lie; it never reads a
// number back.
//
// An entry is a row that occurs. A table's first entries are those of its rows
// of values, in their order; entries without values follow. Sorted, those of
// one row are a segment, in that order.
#ifndef TF_OPT_CC_ENGINES_GPU_ROW_BATCH_H_
#define TF_OPT_CC_ENGINES_GPU_ROW_BATCH_H_

#include <cstdint>
#include <cstdio>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// One table.
template <typename T>
struct RowTable {
  using V = ComputeType<T>;

  TF_OPT_RULE_INLINE int lanes() const { return 1 << lanes_shift; }
  // The row of an entry before the sort.
  TF_OPT_RULE_INLINE int64_t IdOf(int64_t entry) const {
    const bool has_values = entry < slices.count;
    const void* const ids = has_values ? slices.ids : slices.more_ids;
    const int64_t at = has_values ? entry : entry - slices.count;
    return slices.wide_ids ? static_cast<const int64_t*>(ids)[at]
                           : static_cast<const int32_t*>(ids)[at];
  }
  TF_OPT_RULE_INLINE bool IsUnused(int64_t id) const {
    return id == (slices.wide_ids ? kUnusedRow<int64_t> : kUnusedRow<int32_t>);
  }
  TF_OPT_RULE_INLINE bool IsRefused(int64_t id) const {
    return id ==
           (slices.wide_ids ? kRefusedRow<int64_t> : kRefusedRow<int32_t>);
  }

  DenseTensor<T> tensor;  // Its gradient are the values.
  GpuSlices slices;
  int64_t width = 1;
  // Threads for a row, a power of two; and whether they take packs.
  int lanes_shift = 0;
  bool packs = false;
  // Key of its first row; the one behind its last row is for unused entries.
  uint32_t key_begin = 0;
  T* sums = nullptr;        // Room for the sum of each row of values.
  V* row_states = nullptr;  // Of a row-wise rule.
  // Of rows that wait.
  float* since = nullptr;
  MissedSteps* missed = nullptr;
};

// Tables by value, so that no memory must be filled first.
template <typename T>
struct RowBatch {
  static constexpr int kCapacity = 32;

  TF_OPT_RULE_INLINE int64_t entry_begin(int i) const {
    return i == 0 ? 0 : entry_ends[i - 1];
  }
  TF_OPT_RULE_INLINE int64_t entries() const { return entry_ends[count - 1]; }
  TF_OPT_RULE_INLINE int64_t entries_of(int i) const {
    return entry_ends[i] - entry_begin(i);
  }

  int count = 0;
  int rounds = 1;           // Rows of a group of threads, one after the other.
  int first = 0;            // Of tables[0] among all tables, ...
  int64_t first_entry = 0;  // ... and of its first entry among all entries.
  uint32_t keys = 0;
  int64_t entry_ends[kCapacity];
  // Blocks with a group of threads for each entry, and for each row.
  int64_t entry_block_ends[kCapacity];
  int64_t row_block_ends[kCapacity];
  RowTable<T> tables[kCapacity];
};

// Entries that a segment has more than, if it is long.
constexpr int kLongSegment = 32;

// Enough that a thread waits less for its rule than for its rows.
constexpr int kRowRounds = 4;

// Adds a table to a batch that has room.
template <typename T>
void AddTable(RowTable<T> table, bool warp_a_row, RowBatch<T>* batch) {
  const int i = batch->count;
  constexpr int kPack = kGpuPackOf<T>;
  table.packs = table.width % kPack == 0 && HasPacks(table.tensor);
  const int pack = table.packs ? kPack : 1;
  while (table.lanes() < kWarpThreads &&
         (warp_a_row || table.lanes() * pack < table.width)) {
    ++table.lanes_shift;
  }
  // A warp that measures a row has no other.
  batch->rounds = warp_a_row ? 1 : kRowRounds;
  const int64_t block_rows = kGpuThreads / table.lanes() * batch->rounds;
  const auto end = [&](const int64_t* ends, int64_t more) {
    return (i == 0 ? 0 : ends[i - 1]) + more;
  };
  const int64_t entries = table.slices.entries();
  const int64_t rows = table.slices.rows;
  batch->entry_ends[i] = end(batch->entry_ends, entries);
  batch->entry_block_ends[i] =
      end(batch->entry_block_ends, (entries + block_rows - 1) / block_rows);
  batch->row_block_ends[i] =
      end(batch->row_block_ends, (rows + block_rows - 1) / block_rows);
  table.key_begin = batch->keys;
  batch->keys += static_cast<uint32_t>(rows + 1);
  batch->tables[i] = table;
  ++batch->count;
}

// What waits in a table.
struct WaitState {
  int32_t count;      // Missed steps in use.
  bool all_catch_up;  // And then none is.
};

// What launches over a batch share, in device memory.
struct RowMemory {
  const GpuStepHeader* header = nullptr;
  // How many entries of all batches come behind the first bad one, and one
  // more; 0: none is bad.
  uint32_t* bad = nullptr;
  // Sorted, with the entries' positions before.
  uint32_t* keys = nullptr;
  uint32_t* positions = nullptr;
  uint32_t* other_keys = nullptr;
  uint32_t* other_positions = nullptr;
  uint32_t* long_segments = nullptr;  // Their first entries.
  uint32_t* long_count = nullptr;
  uint32_t* occurring = nullptr;  // A bit for each key; may be absent.
  // Of each table, if rows wait: these, and what rows miss in this step.
  WaitState* waits = nullptr;
  MissedStep* missed = nullptr;
};

// A batch's part of a step.
template <typename T>
struct RowStep {
  // Whether the step writes anything at all.
  TF_OPT_RULE_INLINE bool writes() const {
    return (*memory.bad == 0) & memory.header->writes;
  }
  TF_OPT_RULE_INLINE bool updates() const { return memory.header->updates; }
  TF_OPT_RULE_INLINE bool catches_up() const {
    return writes() && memory.header->catches_up;
  }
  // Missed steps in use, once all rows caught up that must.
  TF_OPT_RULE_INLINE int32_t MissedSince(int i) const {
    return memory.waits[i].all_catch_up ? 0 : memory.waits[i].count;
  }

  RowBatch<T> batch;
  RowMemory memory;
};

// One row that a step takes.
template <typename T>
struct StepRow {
  int64_t row = -1;             // -1: there is none.
  const T* gradient = nullptr;  // Null: zero.
  bool repeats = false;         // Whether its segment has more entries.
};

// Which rows of each table a work takes.
enum class Rows {
  kOccurring,  // Those of the sorted entries.
  kOthers,     // All that don't occur, without a gradient.
  kAll,        // Those of a dense gradient.
};

// Returns the row whose segment begins at the k-th entry of table i. A segment
// of one entry wasn't summed.
template <typename T>
TF_OPT_RULE_INLINE StepRow<T> OccurringRow(const RowStep<T>& step, int i,
                                           int64_t k) {
  const RowTable<T>& table = step.batch.tables[i];
  const int64_t begin = step.batch.entry_begin(i);
  const uint32_t* const keys = step.memory.keys + begin;
  // Without a branch: a thread then waits for memory once.
  const uint32_t key = keys[k];
  const uint32_t before = k > 0 ? keys[k - 1] : ~key;
  const uint32_t after = k + 1 < step.batch.entries_of(i) ? keys[k + 1] : ~key;
  const int64_t position = step.memory.positions[begin + k];
  const int64_t row = key - table.key_begin;
  const bool repeats = after == key;
  const bool begins = before != key && row != table.slices.rows;
  const bool has_values = position < table.slices.count;
  const T* const values = repeats ? table.sums : table.tensor.gradient();
  return {begins ? row : -1,
          has_values ? values + position * table.width : nullptr, repeats};
}

// Returns the k-th row of table i.
template <typename T>
TF_OPT_RULE_INLINE StepRow<T> RowAt(const RowStep<T>& step, Rows rows, int i,
                                    int64_t k) {
  if (rows == Rows::kOccurring) return OccurringRow(step, i, k);
  const RowTable<T>& table = step.batch.tables[i];
  if (rows == Rows::kAll) {
    return {k, table.tensor.gradient() + k * table.width};
  }
  const uint32_t key = table.key_begin + static_cast<uint32_t>(k);
  const bool occurs = step.memory.occurring[key / 32] >> key % 32 & 1;
  return {occurs ? -1 : k};
}

// A thread's rows of table i: k, k + stride and so on, before `end`. It is one
// of a group of threads, each with a part of these rows.
struct RowPart {
  int i;
  int64_t k;
  int64_t end;
  int stride;
  int lane;
};

template <typename T>
TF_OPT_RULE_INLINE RowPart PartOfThread(const RowBatch<T>& batch, Rows rows,
                                        int64_t block, int thread) {
  const bool occurring = rows == Rows::kOccurring;
  const int64_t* const ends =
      occurring ? batch.entry_block_ends : batch.row_block_ends;
  const int i = TensorOfTile(ends, batch.count, block);
  const RowTable<T>& table = batch.tables[i];
  const int64_t count = occurring ? batch.entries_of(i) : table.slices.rows;
  const int groups = kGpuThreads >> table.lanes_shift;
  const int64_t rows_of_block = groups * batch.rounds;
  const int64_t begin = (block - (i == 0 ? 0 : ends[i - 1])) * rows_of_block;
  const int64_t end = begin + rows_of_block;
  return {i, begin + (thread >> table.lanes_shift), end < count ? end : count,
          groups, thread & (table.lanes() - 1)};
}

// Makes the entries' keys and marks the rows that occur.
template <typename Device, typename T>
struct MakeKeysWork {
  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const RowBatch<T>& batch = step.batch;
    const RowMemory& memory = step.memory;
    const int64_t k = block * kGpuThreads + thread;
    if (k >= batch.entries()) return;
    const int i = TensorOfTile(batch.entry_ends, batch.count, k);
    const RowTable<T>& table = batch.tables[i];
    const int64_t entry = k - batch.entry_begin(i);
    const int64_t id = table.IdOf(entry);
    const bool valid = id >= 0 && id < table.slices.rows;
    if (!valid && !table.IsUnused(id)) {
      Device::AtomicMax(memory.bad, static_cast<uint32_t>(
                                        all_entries - batch.first_entry - k));
    }
    const uint32_t key =
        table.key_begin + static_cast<uint32_t>(valid ? id : table.slices.rows);
    memory.keys[k] = key;
    memory.positions[k] = static_cast<uint32_t>(entry);
    if (memory.occurring != nullptr && valid) {
      Device::AtomicOr(memory.occurring + key / 32, 1u << key % 32);
    }
  }

  RowStep<T> step;
  int64_t all_entries;
};

// Tells the host of the first bad entry, if it is in this batch.
template <typename Device, typename T>
TF_OPT_RULE_INLINE void ReportBadRow(const RowBatch<T>& batch,
                                     int64_t all_entries, uint32_t bad,
                                     BadRow* report) {
  const int64_t k = all_entries - bad - batch.first_entry;
  if (k < 0 || k >= batch.entries()) return;
  const int i = TensorOfTile(batch.entry_ends, batch.count, k);
  const RowTable<T>& table = batch.tables[i];
  const int64_t entry = k - batch.entry_begin(i);
  const int64_t id = table.IdOf(entry);
  // The host takes the first report and only then clears it.
  if (table.IsRefused(id) || report->table != 0) return;
  const bool has_values = entry < table.slices.count;
  report->has_values = has_values;
  report->row = id;
  report->at = has_values ? entry : entry - table.slices.count;
  report->rows = table.slices.rows;
  Device::Publish();
  report->table = batch.first + i + 1;
  printf(
      "tf_opt: `%s[%d]` must be in [0, %lld), got %lld; nothing was written\n",
      has_values ? "indices" : "accumulated_rows", batch.first + i,
      static_cast<long long>(table.slices.rows), static_cast<long long>(id));
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_ROW_BATCH_H_
