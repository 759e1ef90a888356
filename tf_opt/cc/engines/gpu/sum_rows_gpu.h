// Sorts the entries of tables by row, and sums those of rows that occur often,
// in their order: the bits of the CPU engine's sums. No rule is involved.
//
// Whoever takes a row sums a short segment (RowBatch::GradientOf). A long one
// would keep it waiting for memory, entry after entry: a block's threads load
// its rows ahead, and one warp adds them.
#ifndef TF_OPT_CC_ENGINES_GPU_SUM_ROWS_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_SUM_ROWS_GPU_H_

#include <cstdint>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_state.h"
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/gpu/row_batch.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Makes the entries' keys, and counts the steps that rows of each table may
// have missed.
template <typename T>
struct MakeKeysWork {
  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const int64_t k = block * kGpuThreads + thread;
    if (batch.waiting != nullptr && k < batch.count) {
      const RowTable<T>& table = batch.tables[k];
      const int64_t count = CountMissed(table.missed, table.capacity);
      batch.waiting[k] = {static_cast<int32_t>(count),
                          !lazy || count == table.capacity};
    }
    if (k >= batch.entries()) return;
    const int i = TensorOfTile(batch.entry_ends, batch.count, k);
    const RowTable<T>& table = batch.tables[i];
    const int64_t entry = k - batch.entry_begin(i);
    const int64_t id = table.IdOf(entry);
    const bool valid = id >= 0 && id < table.rows;
    if (!valid && id != table.unused()) {
      GpuDevice::AtomicMax(&batch.header->bad,
                           ~static_cast<uint32_t>(batch.first_entry + k));
    }
    const uint32_t key =
        table.key_begin + static_cast<uint32_t>(valid ? id : table.rows);
    batch.unsorted_keys[k] = key;
    batch.unsorted_positions[k] = static_cast<uint32_t>(entry);
  }

  RowBatch<T> batch;
  bool lazy;
};

// Sums long segments: of each a few columns at a time, which one warp adds. A
// part is a window of the entries, in which at most one begins, and some
// columns. Also tells the host of the first bad entry.
template <typename T>
struct SumLongRowsWork {
  static constexpr int kGrid = 512;
  static constexpr int kColumns = 64 / sizeof(T);
  static constexpr int kLoaders = kGpuThreads - kWarpThreads;
  static constexpr int kRows = kLoaders;
  // Rows that a thread reads before it adds the first of them.
  static constexpr int kAddedAhead = 16;
  using V = ComputeType<T>;

  struct alignas(16) Stage {
    T rows[kRows][kColumns];
  };

  class Thread {
   public:
    // For a part in which `first` was found.
    TF_OPT_RULE_INLINE Thread(const SumLongRowsWork& work, int64_t part,
                              int64_t first, int thread)
        : thread_(thread) {
      const RowBatch<T>& batch = work.batch;
      const int i = TensorOfTile(batch.entry_ends, batch.count, first);
      const RowTable<T>& table = batch.tables[i];
      const uint32_t* const keys = batch.keys + first;
      const int64_t column = work.ColumnOf(part);
      width_ = table.width;
      columns_ = width_ - column < kColumns ? width_ - column : kColumns;
      positions_ = batch.positions + first;
      values_ = table.tensor.gradient() + column;
      sum_ = table.sums +
             (first - batch.entry_begin(i)) / kSegmentWindow * width_ + column;
      // Entries without values are the last ones.
      count_ = GallopWhere(batch.entry_ends[i] - first, [&](int64_t k) {
        return keys[k] != keys[0] || positions_[k] >= table.count;
      });
    }

    TF_OPT_RULE_INLINE int64_t stages() const {
      return (count_ + kRows - 1) / kRows;
    }

    TF_OPT_RULE_INLINE void Load(int64_t stage, Stage* to) const {
      using Chunk = GpuPack<T, 16 / sizeof(T)>;
      if (thread_ < kWarpThreads) return;
      if (Chunk::IsAligned(values_) &&
          width_ * sizeof(T) % sizeof(Chunk) == 0) {
        Load<Chunk, 4>(stage, to);
      } else {
        Load<GpuPack<T, 1>, 8>(stage, to);
      }
    }

    TF_OPT_RULE_INLINE void Add(int64_t stage, const Stage& from) {
      if (thread_ >= columns_) return;
      const int64_t left = count_ - stage * kRows;
      const int rows = static_cast<int>(left < kRows ? left : kRows);
      int r = 0;
      for (; r + kAddedAhead <= rows; r += kAddedAhead) {
        V ahead[kAddedAhead];
        TF_OPT_UNROLL
        for (int j = 0; j < kAddedAhead; ++j) {
          ahead[j] = GpuConvert::Widen(from.rows[r + j][thread_]);
        }
        TF_OPT_UNROLL
        for (int j = 0; j < kAddedAhead; ++j) total_ += ahead[j];
      }
      for (; r < rows; ++r) total_ += GpuConvert::Widen(from.rows[r][thread_]);
    }

    TF_OPT_RULE_INLINE void Finish() const {
      if (thread_ < columns_) sum_[thread_] = GpuConvert::Narrow(total_, T());
    }

   private:
    // Loads a stage in packs, of which a thread requests kAhead before it needs
    // the first. That takes no longer than the other warp adds the stage
    // before, so the positions needn't be there earlier.
    template <typename Pack, int kAhead>
    TF_OPT_RULE_INLINE void Load(int64_t stage, Stage* to) const {
      constexpr int kPack = sizeof(Pack) / sizeof(T);
      constexpr int kPacks = kColumns / kPack;
      const int64_t rows = count_ - stage * kRows;
      const uint32_t* const positions = positions_ + stage * kRows;
      for (int at = thread_ - kWarpThreads; at < kRows * kPacks;
           at += kAhead * kLoaders) {
        const auto row = [&](int j) { return (at + j * kLoaders) / kPacks; };
        const auto column = [&](int j) {
          return (at + j * kLoaders) % kPacks * kPack;
        };
        int64_t next[kAhead] = {};
        Pack packs[kAhead] = {};
        TF_OPT_UNROLL
        for (int j = 0; j < kAhead; ++j) {
          if (row(j) < rows) next[j] = positions[row(j)];
        }
        TF_OPT_UNROLL
        for (int j = 0; j < kAhead; ++j) {
          if (row(j) < rows && column(j) < columns_) {
            packs[j].Load(values_ + next[j] * width_ + column(j));
          }
        }
        TF_OPT_UNROLL
        for (int j = 0; j < kAhead; ++j) {
          packs[j].Store(&to->rows[row(j)][column(j)]);
        }
      }
    }

    const int thread_;
    int64_t width_;
    int64_t columns_;
    int64_t count_ = 0;  // Of the segment's entries with values.
    const uint32_t* positions_;
    const T* values_;
    T* sum_;
    V total_ = 0;
  };

  TF_OPT_RULE_INLINE int64_t parts() const {
    const int64_t windows =
        (batch.entries() + kSegmentWindow - 1) / kSegmentWindow;
    return batch.header->bad != 0 ? 0 : windows * tiles_of_columns;
  }

  // Returns the entry in a part that begins a segment to sum; -1: none does.
  TF_OPT_RULE_INLINE int64_t Find(int64_t part) const {
    const int64_t begin = part / tiles_of_columns * kSegmentWindow;
    const int64_t last = begin + kLongSegment;
    if (last >= batch.entries()) return -1;
    // The last entry is in the segment, if there is one.
    const uint32_t key = batch.keys[last];
    if (begin > 0 && batch.keys[begin - 1] == key) return -1;
    const int64_t first =
        begin + FirstWhere<int64_t>(kLongSegment, [&](int64_t k) {
          return batch.keys[begin + k] == key;
        });
    const int i = TensorOfTile(batch.entry_ends, batch.count, first);
    const RowTable<T>& table = batch.tables[i];
    const bool is_long = first + kLongSegment < batch.entry_ends[i] &&
                         batch.keys[first + kLongSegment] == key;
    const bool has_row = key - table.key_begin != table.rows;
    // A narrow table has no columns in the widest one's tiles.
    const bool has_columns = ColumnOf(part) < table.width;
    const bool has_values = batch.positions[first] < table.count;
    return is_long && has_row && has_columns && has_values ? first : -1;
  }
  TF_OPT_RULE_INLINE int64_t ColumnOf(int64_t part) const {
    return part % tiles_of_columns * kColumns;
  }

  // Tells the host of the first bad entry, if it is in this batch.
  TF_OPT_RULE_INLINE void Report() const {
    if (batch.header->bad == 0 || batch.header->skips) return;
    const int64_t k = ~batch.header->bad - batch.first_entry;
    if (k < 0 || k >= batch.entries()) return;
    const int i = TensorOfTile(batch.entry_ends, batch.count, k);
    const RowTable<T>& table = batch.tables[i];
    const int64_t entry = k - batch.entry_begin(i);
    if (table.IdOf(entry) == table.refused()) return;
    Tell<GpuDevice>(table.RefusalOf(batch.first + i, entry), report);
  }

  RowBatch<T> batch;
  int64_t tiles_of_columns;  // Of the widest table.
  Refusal* report;
};

// Marks the entries that begin a segment, to be counted.
template <typename T>
struct MarkSegmentsWork {
  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const int64_t k = block * kGpuThreads + thread;
    if (k >= batch.entries()) return;
    const int i = TensorOfTile(batch.entry_ends, batch.count, k);
    batch.counts[k] = batch.Occurring(i, k - batch.entry_begin(i)).row >= 0;
  }

  RowBatch<T> batch;
};

// Writes what Rows::kOccurring are: of each table the rows, ascending and each
// once, and their sums; unused rows and zeros follow.
template <typename T>
struct WriteMergedWork {
  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    RowPart part = batch.PartOf(Rows::kOccurring, block, thread);
    const RowTable<T>& table = batch.tables[part.i];
    const int64_t begin = batch.entry_begin(part.i);
    const uint32_t before = begin == 0 ? 0 : batch.counts[begin - 1];
    const bool bad = batch.header->bad != 0;
    const int64_t found =
        bad ? 0 : batch.counts[batch.entry_ends[part.i] - 1] - before;
    for (; part.k < part.end; part.k += part.stride) {
      if (part.k >= found) {
        Write(part, part.k, {bad ? table.refused() : table.unused()});
      }
      const StepRow<T> row = batch.Occurring(part.i, part.k);
      if (bad || row.row < 0) continue;
      Write(part, batch.counts[begin + part.k] - before - 1, row);
    }
  }

  RowBatch<T> batch;

 private:
  TF_OPT_RULE_INLINE void Write(const RowPart& part, int64_t place,
                                const StepRow<T>& row) const {
    const RowTable<T>& table = batch.tables[part.i];
    if (part.member == 0) table.WriteId(row.row, place, table.merged_ids);
    T* const sums = static_cast<T*>(table.merged_values) + place * table.width;
    ForColumns(table, part.member, [&](int64_t c, auto pack) {
      batch.template GradientOf<decltype(pack)::value>(part.i, row, c, 0)
          .Store(sums + c);
    });
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_SUM_ROWS_GPU_H_
