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

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

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
struct RowTable : SlicesToMerge {
  TF_OPT_RULE_INLINE int group() const { return 1 << group_shift; }

  DenseTensor<T> tensor = {};            // Its gradient are the values.
  ComputeType<T>* row_states = nullptr;  // Of a row-wise rule.
  // Of rows that wait.
  float* since = nullptr;
  MissedSteps* missed = nullptr;
  int64_t capacity = 0;  // Of `missed`.
  // Threads for a row, a power of two; and whether they take packs.
  int group_shift = 0;
  bool packs = false;
  // Key of its first row; the one behind its last row is for unused entries.
  uint32_t key_begin = 0;
  T* sums = nullptr;  // Room for the sum of each long segment.
};

// Entries that a segment has more than, if it is long. Of as many entries and
// one more, at most one begins such a segment.
constexpr int kLongSegment = 32;
constexpr int kSegmentWindow = kLongSegment + 1;

// Rows that a thread loads before it adds the first of them.
constexpr int kRowsAhead = 4;

// Calls use(c, count) for a thread's part of a row: the columns from c on, so
// many at once, which is a constant.
template <typename T, typename Use>
TF_OPT_RULE_INLINE void ForColumns(const RowTable<T>& table, int member,
                                   const Use& use) {
  const auto in_packs = [&](auto pack) {
    constexpr int kPack = decltype(pack)::value;
    for (int64_t c = member * kPack; c < table.width;
         c += table.group() * kPack) {
      use(c, pack);
    }
  };
  if (table.packs) {
    in_packs(std::integral_constant<int, kGpuPackOf<T>>());
  } else {
    in_packs(std::integral_constant<int, 1>());
  }
}

// What waits in a table.
struct WaitState {
  // Missed steps in use, once all rows caught up that must.
  TF_OPT_RULE_INLINE int32_t left() const { return all_catch_up ? 0 : count; }

  int32_t count;  // Missed steps in use.
  bool all_catch_up;
};

// One row that a step takes.
template <typename T>
struct StepRow {
  int64_t row = -1;             // -1: there is none.
  const T* gradient = nullptr;  // Null: zero.
  int64_t first = -1;  // The first of its entries, if these must be summed.
};

// Which rows of each table a work takes.
enum class Rows {
  kOccurring,  // Those of the sorted entries.
  kOthers,     // All that don't occur, without a gradient.
  kAll,        // Those of a dense gradient.
};

// A thread's rows of table i: k, k + stride and so on, before `end`. It is one
// of a group of threads, each with a part of these rows.
struct RowPart {
  int i;
  int64_t k;
  int64_t end;
  int stride;
  int member;
};

// Enough that a thread waits less for its rule than for its rows. With fewer
// blocks than this, all multiprocessors are busy only if each takes fewer rows.
constexpr int kRowRounds = 4;
constexpr int64_t kManyBlocks = 1536;

// Tables by value, so that no memory must be filled first, and what launches
// over them share in the device's memory.
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

  // Whether the step writes anything at all.
  TF_OPT_RULE_INLINE bool writes() const {
    return (header->bad == 0) & !header->skips;
  }
  TF_OPT_RULE_INLINE bool updates() const { return header->updates; }
  TF_OPT_RULE_INLINE bool catches_up() const {
    return writes() && header->catches_up;
  }

  // Blocks with a group of threads for each of these rows.
  TF_OPT_RULE_INLINE int64_t blocks(Rows rows) const {
    return block_ends(rows)[count - 1];
  }
  TF_OPT_RULE_INLINE RowPart PartOf(Rows rows, int64_t block,
                                    int thread) const {
    const int64_t* const ends = block_ends(rows);
    const int i = TensorOfTile(ends, count, block);
    const RowTable<T>& table = tables[i];
    const int64_t all = rows == Rows::kOccurring ? entries_of(i) : table.rows;
    const int groups = kGpuThreads >> table.group_shift;
    const int64_t rows_of_block = groups * rounds(rows);
    const int64_t begin = (block - (i == 0 ? 0 : ends[i - 1])) * rows_of_block;
    const int64_t end = begin + rows_of_block;
    return {i, begin + (thread >> table.group_shift), end < all ? end : all,
            groups, thread & (table.group() - 1)};
  }

  // Returns the row whose segment begins at the k-th entry of table i.
  TF_OPT_RULE_INLINE StepRow<T> Occurring(int i, int64_t k) const {
    const RowTable<T>& table = tables[i];
    const int64_t begin = entry_begin(i);
    const uint32_t* const own = keys + begin;
    // Without a branch: a thread then waits for memory once.
    const uint32_t key = own[k];
    const uint32_t before = k > 0 ? own[k - 1] : ~key;
    const auto repeats = [&](int more) {
      return (k + more < entries_of(i) ? own[k + more] : ~key) == key;
    };
    const bool is_short = repeats(1), is_long = repeats(kLongSegment);
    const int64_t position = positions[begin + k];
    const int64_t row = key - table.key_begin;
    const bool begins = before != key && row != table.rows;
    const bool has_values = position < table.count;
    const T* const values =
        is_long ? table.sums + k / kSegmentWindow * table.width
                : table.tensor.gradient() + position * table.width;
    return {begins ? row : -1, has_values ? values : nullptr,
            is_short && !is_long ? k : -1};
  }

  // The gradient of kPack columns, from c on, of a row of table i, plus `zero`:
  // 0 for a sum, which is never -0; -0 changes nothing.
  template <int kPack>
  TF_OPT_RULE_INLINE GpuPack<T, kPack> GradientOf(int i, const StepRow<T>& row,
                                                  int64_t c,
                                                  ComputeType<T> zero) const {
    GpuPack<T, kPack> gradient = {};
    if (row.gradient == nullptr) return gradient;
    if (row.first >= 0) {
      gradient = SumOf<kPack>(i, row.first, c);
    } else {
      gradient.Load(row.gradient + c);
    }
    TF_OPT_UNROLL
    for (int j = 0; j < kPack; ++j) {
      gradient.elements[j] = GpuConvert::Narrow(
          GpuConvert::Widen(gradient.elements[j]) + zero, T());
    }
    return gradient;
  }

  // Notes that a row occurs, for who takes the others later.
  TF_OPT_RULE_INLINE void Mark(Rows rows, int i, int64_t row) const {
    if (rows != Rows::kOccurring || occurs == nullptr) return;
    occurs[tables[i].key_begin + row] = true;
  }

  // Returns the k-th row of table i.
  TF_OPT_RULE_INLINE StepRow<T> RowAt(Rows rows, int i, int64_t k) const {
    if (rows == Rows::kOccurring) return Occurring(i, k);
    const RowTable<T>& table = tables[i];
    if (rows == Rows::kAll) {
      return {k, table.tensor.gradient() + k * table.width};
    }
    return {occurs[table.key_begin + k] ? -1 : k};
  }

  int count = 0;
  // Rows of a group of threads, one after the other.
  int entry_rounds = 1, row_rounds = 1;
  int first = 0;            // Of tables[0] among all tables, ...
  int64_t first_entry = 0;  // ... and of its first entry among all entries.
  uint32_t keys_end = 0;
  int64_t entry_ends[kCapacity];
  int64_t entry_block_ends[kCapacity];
  int64_t row_block_ends[kCapacity];
  RowTable<T> tables[kCapacity];

  GpuStepHeader* header = nullptr;  // In front of the rules.
  // Of the entries, with their positions before the sort.
  uint32_t* keys = nullptr;
  uint32_t* positions = nullptr;
  uint32_t* unsorted_keys = nullptr;
  uint32_t* unsorted_positions = nullptr;
  // Of segments that begin up to each entry, once the keys are sorted.
  uint32_t* counts = nullptr;
  char* sort_room = nullptr;
  std::size_t sort_room_bytes = 0;
  bool* occurs = nullptr;  // Of each key; may be absent.
  // Of each table, if rows wait: these, and what rows miss in this step.
  WaitState* waiting = nullptr;
  MissedStep* missed = nullptr;

 private:
  // Sums values of entries of table i from k on that are of one row.
  template <int kPack>
  TF_OPT_RULE_INLINE GpuPack<T, kPack> SumOf(int i, int64_t k,
                                             int64_t c) const {
    const RowTable<T>& table = tables[i];
    const int64_t end = entry_ends[i];
    k += entry_begin(i);
    const uint32_t key = keys[k];
    ComputeType<T> total[kPack] = {};
    for (bool more = true; more; k += kRowsAhead) {
      // All are requested before the first is needed.
      int64_t places[kRowsAhead];
      TF_OPT_UNROLL
      for (int a = 0; a < kRowsAhead; ++a) {
        const bool in = k + a < end;
        more = (in ? keys[k + a] : ~key) == key;
        places[a] = in && more ? positions[k + a] : table.count;
      }
      GpuPack<T, kPack> rows[kRowsAhead] = {};
      TF_OPT_UNROLL
      for (int a = 0; a < kRowsAhead; ++a) {
        if (places[a] >= table.count) continue;
        rows[a].Load(table.tensor.gradient() + places[a] * table.width + c);
      }
      TF_OPT_UNROLL
      for (int a = 0; a < kRowsAhead; ++a) {
        TF_OPT_UNROLL
        for (int j = 0; places[a] < table.count && j < kPack; ++j) {
          total[j] += GpuConvert::Widen(rows[a].elements[j]);
        }
      }
    }
    GpuPack<T, kPack> sum;
    TF_OPT_UNROLL
    for (int j = 0; j < kPack; ++j) {
      sum.elements[j] = GpuConvert::Narrow(total[j], T());
    }
    return sum;
  }

  TF_OPT_RULE_INLINE int rounds(Rows rows) const {
    return rows == Rows::kOccurring ? entry_rounds : row_rounds;
  }
  TF_OPT_RULE_INLINE const int64_t* block_ends(Rows rows) const {
    return rows == Rows::kOccurring ? entry_block_ends : row_block_ends;
  }
};

// These have no rule, and are therefore compiled once (gradients_on_gpu.cc).

// Divides a step's tables into batches and allocates the memory that they need,
// with so many bytes for the header and the rules.
template <typename T>
std::vector<RowBatch<T>> PlanRows(std::vector<RowTable<T>> tables,
                                  const RowOptions& how, bool warp_a_row,
                                  std::size_t header_bytes,
                                  const GpuQueue& queue);
// Sorts the entries of all batches and sums those of the same row. A bad row is
// noted in the header, which an earlier launch has made.
template <typename T>
void SortAndSum(const std::vector<RowBatch<T>>& batches, const RowOptions& how,
                Refusal* report, GpuDevice* device);
// Marks which rows wait, once others caught up.
template <typename T>
void MarkWaiting(const RowBatch<T>& batch, bool lazy, GpuDevice* device);

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_ROW_BATCH_H_
