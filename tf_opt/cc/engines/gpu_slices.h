// The rows that sparse gradients say, as a GPU is told of them: where they lie,
// in batches that fit into a kernel's arguments.
//
// The rows of all tables of a batch are numbered one table after the other;
// such a number is a key. So one sort by keys is one for all of them.
#ifndef TF_OPT_CC_ENGINES_GPU_SLICES_H_
#define TF_OPT_CC_ENGINES_GPU_SLICES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Of one table. Pointers are to the device's memory, to int32_t or int64_t.
struct GpuSlices {
  const void* indices = nullptr;           // The row of each of ...
  int64_t count = 0;                       // ... so many rows of values, ...
  const void* accumulated_rows = nullptr;  // ... and behind these
  int64_t accumulated_count = 0;           // ... rows that have none.
  bool wide = false;                       // Whether they are int64_t.
  int64_t rows = 0;                        // Of the table, ...
  int64_t width = 0;                       // ... of so many elements each.

  TF_OPT_HOST_DEVICE int64_t entries() const {
    return count + accumulated_count;
  }

  // The row that entry k says.
  TF_OPT_HOST_DEVICE int64_t Row(int64_t k) const {
    const void* const from = k < count ? indices : accumulated_rows;
    const int64_t at = k < count ? k : k - count;
    return wide ? static_cast<const int64_t*>(from)[at]
                : static_cast<const int32_t*>(from)[at];
  }
};

// So many fit, with what else a kernel is told of a table.
constexpr int kGpuTables = 192;

// The tables of one launch, passed by value.
struct GpuSliceBatch {
  int count = 0;
  int first = 0;                   // Which of all tables slices[0] is.
  int64_t entry_ends[kGpuTables];  // Behind the last entry of each.
  int64_t key_ends[kGpuTables];    // Behind the key of its last row.
  GpuSlices slices[kGpuTables];

  TF_OPT_HOST_DEVICE int64_t entry_begin(int i) const {
    return i == 0 ? 0 : entry_ends[i - 1];
  }
  TF_OPT_HOST_DEVICE int64_t key_begin(int i) const {
    return i == 0 ? 0 : key_ends[i - 1];
  }
  TF_OPT_HOST_DEVICE int64_t entries() const { return entry_begin(count); }
  // That of an entry which says no row that there is: behind all others.
  TF_OPT_HOST_DEVICE int64_t no_key() const { return key_begin(count); }
};

inline std::vector<GpuSliceBatch> PlanGpuSlices(
    const std::vector<GpuSlices>& slices) {
  std::vector<GpuSliceBatch> batches;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (batches.empty() || batches.back().count == kGpuTables) {
      batches.emplace_back();
      batches.back().first = static_cast<int>(i);
    }
    GpuSliceBatch& batch = batches.back();
    batch.entry_ends[batch.count] = batch.entries() + slices[i].entries();
    batch.key_ends[batch.count] = batch.no_key() + slices[i].rows;
    batch.slices[batch.count] = slices[i];
    ++batch.count;
  }
  return batches;
}

// The entries of a batch by key, those of the same row in their order, in the
// device's memory.
struct GpuSortedEntries {
  const int64_t* keys = nullptr;
  const int64_t* numbers = nullptr;  // Of each entry among its table's.
  int64_t count = 0;

  TF_OPT_HOST_DEVICE bool BeginsRow(int64_t k) const {
    return k == 0 || keys[k - 1] != keys[k];
  }

  // The first entry of this key or a later one.
  TF_OPT_HOST_DEVICE int64_t Find(int64_t key) const {
    int64_t low = 0, high = count;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (keys[middle] < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_SLICES_H_
