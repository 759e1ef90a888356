// Sorts the entries of tables by row, and sums those of rows that occur more
// than once, in their order: the bits of the CPU engine's sums. No rule is
// involved.
//
// A group of threads sums a short segment. A long one would keep it waiting for
// memory, entry after entry: a block's threads load its rows ahead, and one
// warp adds them.
#ifndef TF_OPT_CC_ENGINES_GPU_SUM_ROWS_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_SUM_ROWS_GPU_H_

#include <cstdint>
#include <cstdio>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_state.h"
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/gpu/row_batch.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Makes the entries' keys, marks the rows that occur, and counts the steps that
// rows of each table may have missed.
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
      GpuDevice::AtomicMax(batch.bad,
                           ~static_cast<uint32_t>(batch.first_entry + k));
    }
    const uint32_t key =
        table.key_begin + static_cast<uint32_t>(valid ? id : table.rows);
    batch.unsorted_keys[k] = key;
    batch.unsorted_positions[k] = static_cast<uint32_t>(entry);
    if (valid && batch.occurs != nullptr) batch.occurs[key] = true;
  }

  RowBatch<T> batch;
  bool lazy;
};

// Entries that a segment has more than, if it is long.
constexpr int kLongSegment = 32;

// Rows that a thread loads before it adds the first of them.
constexpr int kRowsAhead = 4;

// Sums short segments and lists long ones.
template <typename T>
struct SumRowsWork {
  using V = ComputeType<T>;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    if (*batch.bad != 0) {
      const bool writes = batch.header == nullptr || batch.header->writes;
      if (block == 0 && thread == 0 && writes) Report();
      return;
    }
    RowPart part = batch.PartOf(Rows::kOccurring, block, thread);
    for (; part.k < part.end; part.k += part.stride) {
      const StepRow<T> row = batch.Occurring(part.i, part.k);
      if (row.row >= 0 && row.repeats && row.gradient != nullptr) Sum(part);
      if (batch.counts != nullptr && part.member == 0) {
        // To be added up.
        batch.counts[batch.entry_begin(part.i) + part.k] = row.row >= 0;
      }
    }
  }

  RowBatch<T> batch;
  BadRow* report;

 private:
  // Tells the host of the first bad entry, if it is in this batch.
  TF_OPT_RULE_INLINE void Report() const {
    const int64_t k = ~*batch.bad - batch.first_entry;
    if (k < 0 || k >= batch.entries()) return;
    const int i = TensorOfTile(batch.entry_ends, batch.count, k);
    const RowTable<T>& table = batch.tables[i];
    const int64_t entry = k - batch.entry_begin(i);
    const int64_t id = table.IdOf(entry);
    // The host takes the first report and only then clears it.
    if (id == table.refused() || report->table != 0) return;
    report->has_values = entry < table.count;
    report->row = id;
    report->at = report->has_values ? entry : entry - table.count;
    report->rows = table.rows;
    GpuDevice::Publish(&report->table, batch.first + i + 1);
    printf(
        "tf_opt: `%s[%d]` must be in [0, %lld), got %lld; nothing was "
        "written\n",
        entry < table.count ? "indices" : "accumulated_rows", batch.first + i,
        static_cast<long long>(table.rows), static_cast<long long>(id));
  }

  // Those of a table from the first of a segment on.
  struct Entries {
    const uint32_t* keys;
    const uint32_t* positions;
    int64_t count;
  };

  // The segment that begins with the k-th entry.
  TF_OPT_RULE_INLINE void Sum(const RowPart& part) const {
    const RowTable<T>& table = batch.tables[part.i];
    const int64_t begin = batch.entry_begin(part.i) + part.k;
    const Entries entries = {batch.keys + begin, batch.positions + begin,
                             batch.entries_of(part.i) - part.k};
    if (entries.count > kLongSegment &&
        entries.keys[kLongSegment] == entries.keys[0]) {
      if (part.member == 0) {
        const uint32_t at = GpuDevice::AtomicAdd(batch.long_count, 1u);
        batch.long_segments[at] = static_cast<uint32_t>(begin);
      }
      return;
    }
    ForColumns(table, part.member, [&](int64_t c, auto pack) {
      SumColumns<decltype(pack)::value>(table, entries, c);
    });
  }

  template <int kPack>
  TF_OPT_RULE_INLINE static void SumColumns(const RowTable<T>& table,
                                            const Entries& entries, int64_t c) {
    const T* const values = table.tensor.gradient();
    const uint32_t key = entries.keys[0];
    V total[kPack] = {};
    bool more = true;
    for (int64_t k = 0; more; k += kRowsAhead) {
      GpuPack<T, kPack> rows[kRowsAhead] = {};
      bool has_values[kRowsAhead];
      TF_OPT_UNROLL
      for (int a = 0; a < kRowsAhead; ++a) {
        const bool in = k + a < entries.count;
        more = (in ? entries.keys[k + a] : ~key) == key;
        const int64_t position = in ? entries.positions[k + a] : 0;
        has_values[a] = more && position < table.count;
        if (has_values[a]) rows[a].Load(values + position * table.width + c);
      }
      TF_OPT_UNROLL
      for (int a = 0; a < kRowsAhead; ++a) {
        TF_OPT_UNROLL
        for (int j = 0; has_values[a] && j < kPack; ++j) {
          total[j] += GpuConvert::Widen(rows[a].elements[j]);
        }
      }
    }
    GpuPack<T, kPack> sum;
    TF_OPT_UNROLL
    for (int j = 0; j < kPack; ++j) {
      sum.elements[j] = GpuConvert::Narrow(total[j], T());
    }
    sum.Store(table.sums + entries.positions[0] * table.width + c);
  }
};

// Sums long segments: of each a few columns at a time, which one warp adds.
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
    TF_OPT_RULE_INLINE Thread(const SumLongRowsWork& work, int64_t part,
                              int thread)
        : thread_(thread) {
      const RowBatch<T>& batch = work.batch;
      const int64_t tiles = work.tiles_of_columns;
      const int64_t first = batch.long_segments[part / tiles];
      const int i = TensorOfTile(batch.entry_ends, batch.count, first);
      const RowTable<T>& table = batch.tables[i];
      const uint32_t* const keys = batch.keys + first;
      const uint32_t* const positions = batch.positions + first;
      const int64_t column = part % tiles * kColumns;
      width_ = table.width;
      columns_ = width_ - column < kColumns ? width_ - column : kColumns;
      positions_ = positions;
      values_ = table.tensor.gradient() + column;
      sum_ = table.sums + positions[0] * width_ + column;
      // A narrow table has no columns in the widest one's tiles.
      if (columns_ <= 0) return;
      // Entries without values are the last ones.
      count_ = FirstWhere(batch.entry_ends[i] - first, [&](int64_t k) {
        return keys[k] != keys[0] || positions[k] >= table.count;
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
    return *batch.bad != 0 ? 0 : *batch.long_count * tiles_of_columns;
  }

  RowBatch<T> batch;
  int64_t tiles_of_columns;  // Of the widest table.
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
    const bool bad = *batch.bad != 0;
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
    for (int64_t c = part.member; c < table.width; c += table.group()) {
      const ComputeType<T> sum =
          row.gradient == nullptr ? 0 : GpuConvert::Widen(row.gradient[c]);
      sums[c] = GpuConvert::Narrow(sum + 0, T());
    }
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_SUM_ROWS_GPU_H_
