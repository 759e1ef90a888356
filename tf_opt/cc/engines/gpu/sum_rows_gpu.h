// Sums the entries of rows that occur more than once, in their order: the bits
// of the CPU engine's sums. No rule is involved.
//
// A group of threads sums a short segment. A long one would keep it waiting for
// memory, entry after entry: a block's threads load its rows ahead, and one
// warp adds them.
#ifndef TF_OPT_CC_ENGINES_GPU_SUM_ROWS_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_SUM_ROWS_GPU_H_

#include <cstdint>

#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_state.h"
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/gpu/row_batch.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Rows that a thread loads before it adds the first of them.
constexpr int kRowsAhead = 4;

// Sums short segments and lists long ones.
template <typename Device, typename T>
struct SumRowsWork {
  using Convert = typename Device::Convert;
  using V = ComputeType<T>;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const uint32_t bad = *step.memory.bad;
    if (bad != 0) {
      const GpuStepHeader* const header = step.memory.header;
      if (block == 0 && thread == 0 && (header == nullptr || header->writes)) {
        ReportBadRow<Device>(step.batch, all_entries, bad, report);
      }
      return;
    }
    RowPart part = PartOfThread(step.batch, Rows::kOccurring, block, thread);
    for (; part.k < part.end; part.k += part.stride) {
      const StepRow<T> row = OccurringRow(step, part.i, part.k);
      if (row.row >= 0 && row.repeats && row.gradient != nullptr) Sum(part);
    }
  }

  RowStep<T> step;
  int64_t all_entries;
  BadRow* report;

 private:
  // Those of a table from the first of a segment on.
  struct Entries {
    const uint32_t* keys;
    const uint32_t* positions;
    int64_t count;
  };

  // The segment that begins with the k-th entry.
  TF_OPT_RULE_INLINE void Sum(const RowPart& part) const {
    const RowBatch<T>& batch = step.batch;
    const RowMemory& memory = step.memory;
    const RowTable<T>& table = batch.tables[part.i];
    const int64_t begin = batch.entry_begin(part.i) + part.k;
    const Entries entries = {memory.keys + begin, memory.positions + begin,
                             batch.entries_of(part.i) - part.k};
    if (entries.count > kLongSegment &&
        entries.keys[kLongSegment] == entries.keys[0]) {
      if (part.lane == 0) {
        const uint32_t at = Device::AtomicAdd(memory.long_count, 1);
        memory.long_segments[at] = static_cast<uint32_t>(begin);
      }
    } else if (table.packs) {
      Sum<kGpuPackOf<T>>(table, entries, part.lane);
    } else {
      Sum<1>(table, entries, part.lane);
    }
  }

  template <int kPack>
  TF_OPT_RULE_INLINE static void Sum(const RowTable<T>& table,
                                     const Entries& entries, int lane) {
    const T* const values = table.tensor.gradient();
    const uint32_t key = entries.keys[0];
    for (int64_t c = lane * kPack; c < table.width;
         c += table.lanes() * kPack) {
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
          has_values[a] = more && position < table.slices.count;
          if (has_values[a]) rows[a].Load(values + position * table.width + c);
        }
        TF_OPT_UNROLL
        for (int a = 0; a < kRowsAhead; ++a) {
          TF_OPT_UNROLL
          for (int j = 0; has_values[a] && j < kPack; ++j) {
            total[j] += Convert::Widen(rows[a].elements[j]);
          }
        }
      }
      GpuPack<T, kPack> sum;
      TF_OPT_UNROLL
      for (int j = 0; j < kPack; ++j) {
        sum.elements[j] = Convert::Narrow(total[j], T());
      }
      sum.Store(table.sums + entries.positions[0] * table.width + c);
    }
  }
};

// Sums long segments: of each a few columns at a time.
template <typename Device, typename T>
struct SumLongRowsWork {
  static constexpr int kGrid = 512;
  static constexpr int kAdders = kWarpThreads;
  static constexpr int kLoaders = kGpuThreads - kAdders;
  static constexpr int kColumns = 64 / sizeof(T);
  // A loader requests this many chunks of 16 bytes before it needs the first.
  static constexpr int kChunks = 4;
  static constexpr int kChunksOfRow = 4;
  static constexpr int kRows = kLoaders * kChunks / kChunksOfRow;
  // Rows that an adder reads before it adds the first of them.
  static constexpr int kAddedAhead = 16;
  using Chunk = GpuPack<uint32_t, 4>;
  using Convert = typename Device::Convert;
  using V = ComputeType<T>;

  struct alignas(16) Stage {
    T rows[kRows][kColumns];
  };

  class Thread {
   public:
    TF_OPT_RULE_INLINE Thread(const SumLongRowsWork& work, int64_t part,
                              int thread)
        : adder_(thread), loader_(thread - kAdders) {
      const RowBatch<T>& batch = work.step.batch;
      const RowMemory& memory = work.step.memory;
      const int64_t tiles = work.tiles_of_columns;
      const int64_t first = memory.long_segments[part / tiles];
      const int i = TensorOfTile(batch.entry_ends, batch.count, first);
      const RowTable<T>& table = batch.tables[i];
      const uint32_t* const keys = memory.keys + first;
      positions_ = memory.positions + first;
      width_ = table.width;
      const int64_t column = part % tiles * kColumns;
      columns_ = width_ - column < kColumns ? width_ - column : kColumns;
      // Those without values are the last ones. Narrow tables have no columns
      // in the widest one's tiles.
      count_ =
          columns_ <= 0
              ? 0
              : FirstNotLess(positions_,
                             FirstNotLess(keys, batch.entry_ends[i] - first,
                                          keys[0] + 1),
                             static_cast<uint32_t>(table.slices.count));
      values_ = table.tensor.gradient() + column;
      sum_ = table.sums + positions_[0] * width_ + column;
      in_chunks_ = width_ * sizeof(T) % sizeof(Chunk) == 0 &&
                   Chunk::IsAligned(reinterpret_cast<const uint32_t*>(values_));
      FindNext(0);
    }

    TF_OPT_RULE_INLINE int64_t stages() const {
      return (count_ + kRows - 1) / kRows;
    }

    TF_OPT_RULE_INLINE void Load(int64_t stage, Stage* to) {
      if (loader_ < 0) return;
      if (!in_chunks_) return LoadElements(stage, to);
      const int64_t rows = count_ - stage * kRows;
      Chunk chunks[kChunks] = {};
      TF_OPT_UNROLL
      for (int j = 0; j < kChunks; ++j) {
        if (RowOf(j) < rows && ColumnOf(j) < columns_) {
          chunks[j].Load(reinterpret_cast<const uint32_t*>(
              values_ + next_[j] * width_ + ColumnOf(j)));
        }
      }
      FindNext(stage + 1);
      TF_OPT_UNROLL
      for (int j = 0; j < kChunks; ++j) {
        chunks[j].Store(
            reinterpret_cast<uint32_t*>(&to->rows[RowOf(j)][ColumnOf(j)]));
      }
    }

    TF_OPT_RULE_INLINE void Add(int64_t stage, const Stage& from) {
      if (adder_ >= columns_ || loader_ >= 0) return;
      const int64_t left = count_ - stage * kRows;
      const int rows = static_cast<int>(left < kRows ? left : kRows);
      int r = 0;
      for (; r + kAddedAhead <= rows; r += kAddedAhead) {
        V ahead[kAddedAhead];
        TF_OPT_UNROLL
        for (int j = 0; j < kAddedAhead; ++j) {
          ahead[j] = Convert::Widen(from.rows[r + j][adder_]);
        }
        TF_OPT_UNROLL
        for (int j = 0; j < kAddedAhead; ++j) total_ += ahead[j];
      }
      for (; r < rows; ++r) total_ += Convert::Widen(from.rows[r][adder_]);
    }

    TF_OPT_RULE_INLINE void Finish() const {
      if (count_ == 0 || adder_ >= columns_ || loader_ >= 0) return;
      sum_[adder_] = Convert::Narrow(total_, T());
    }

   private:
    TF_OPT_RULE_INLINE int RowOf(int j) const {
      return (loader_ + j * kLoaders) / kChunksOfRow;
    }
    TF_OPT_RULE_INLINE int ColumnOf(int j) const {
      return (loader_ + j * kLoaders) % kChunksOfRow *
             (kColumns / kChunksOfRow);
    }

    // Requests the positions of the rows of a stage.
    TF_OPT_RULE_INLINE void FindNext(int64_t stage) {
      if (loader_ < 0 || !in_chunks_) return;
      TF_OPT_UNROLL
      for (int j = 0; j < kChunks; ++j) {
        const int64_t k = stage * kRows + RowOf(j);
        next_[j] = k < count_ ? positions_[k] : 0;
      }
    }

    TF_OPT_RULE_INLINE void LoadElements(int64_t stage, Stage* to) const {
      const int64_t rows = count_ - stage * kRows;
      // Each loop requests all its elements before the next needs the first.
      constexpr int kAhead = 8;
      for (int at = loader_; at < kRows * kColumns; at += kAhead * kLoaders) {
        const auto row = [&](int j) { return (at + j * kLoaders) / kColumns; };
        const auto column = [&](int j) {
          return (at + j * kLoaders) % kColumns;
        };
        int64_t next[kAhead] = {};
        T elements[kAhead] = {};
        TF_OPT_UNROLL
        for (int j = 0; j < kAhead; ++j) {
          if (row(j) < rows) next[j] = positions_[stage * kRows + row(j)];
        }
        TF_OPT_UNROLL
        for (int j = 0; j < kAhead; ++j) {
          if (row(j) < rows && column(j) < columns_) {
            elements[j] = values_[next[j] * width_ + column(j)];
          }
        }
        TF_OPT_UNROLL
        for (int j = 0; j < kAhead; ++j) {
          to->rows[row(j)][column(j)] = elements[j];
        }
      }
    }

    const int adder_;
    const int loader_;
    const uint32_t* positions_;
    int64_t count_;
    int64_t width_;
    int64_t columns_;
    const T* values_;
    T* sum_;
    bool in_chunks_;
    int64_t next_[kChunks] = {};
    V total_ = 0;
  };

  TF_OPT_RULE_INLINE int64_t parts() const {
    return *step.memory.bad != 0 ? 0
                                 : *step.memory.long_count * tiles_of_columns;
  }

  RowStep<T> step;
  int64_t tiles_of_columns;  // Of the widest table.
};

// Writes what Rows::kOccurring are: of each table the rows, ascending and each
// once, and their sums; kUnusedRow and zeros follow.
template <typename Device, typename T>
struct WriteMergedWork {
  using Convert = typename Device::Convert;
  using V = ComputeType<T>;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const RowBatch<T>& batch = step.batch;
    RowPart part = PartOfThread(batch, Rows::kOccurring, block, thread);
    const int64_t begin = batch.entry_begin(part.i);
    const uint32_t before = begin == 0 ? 0 : counts[begin - 1];
    const bool bad = *step.memory.bad != 0;
    const int64_t found =
        bad ? 0 : counts[batch.entry_ends[part.i] - 1] - before;
    for (; part.k < part.end; part.k += part.stride) {
      if (part.k >= found) Write(part, part.k, {}, bad);
      const StepRow<T> row = OccurringRow(step, part.i, part.k);
      if (bad || row.row < 0) continue;
      Write(part, counts[begin + part.k] - before - 1, row, false);
    }
  }

  RowStep<T> step;
  const uint32_t* counts;  // Of segments that begin up to each entry.
  MergedOutput<T> outputs[RowBatch<T>::kCapacity] = {};

 private:
  TF_OPT_RULE_INLINE void Write(const RowPart& part, int64_t place,
                                const StepRow<T>& row, bool bad) const {
    const RowTable<T>& table = step.batch.tables[part.i];
    const MergedOutput<T>& output = outputs[part.i];
    const int lane = part.lane;
    if (lane == 0 && table.slices.wide_ids) {
      WriteRow(row.row, bad, static_cast<int64_t*>(output.rows) + place);
    } else if (lane == 0) {
      WriteRow(row.row, bad, static_cast<int32_t*>(output.rows) + place);
    }
    for (int64_t c = lane; c < table.width; c += table.lanes()) {
      const V sum = row.gradient == nullptr
                        ? V(0)
                        : Convert::Widen(row.gradient[c]) + V(0);
      output.sums[place * table.width + c] = Convert::Narrow(sum, T());
    }
  }

  template <typename Index>
  TF_OPT_RULE_INLINE static void WriteRow(int64_t row, bool bad, Index* to) {
    *to = bad       ? kRefusedRow<Index>
          : row < 0 ? kUnusedRow<Index>
                    : static_cast<Index>(row);
  }
};

// Marks the entries that begin a segment.
template <typename T>
struct MarkSegmentsWork {
  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const RowBatch<T>& batch = step.batch;
    const int64_t k = block * kGpuThreads + thread;
    if (k >= batch.entries()) return;
    const int i = TensorOfTile(batch.entry_ends, batch.count, k);
    begins[k] = OccurringRow(step, i, k - batch.entry_begin(i)).row >= 0;
  }

  RowStep<T> step;
  uint32_t* begins;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_SUM_ROWS_GPU_H_
