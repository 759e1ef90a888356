// Puts the entries of sparse gradients into the order of their rows, on a GPU:
// one kernel computes their keys, and a stable radix sort looks at as many bits
// of these as they have. Nothing is read back.
#ifndef TF_OPT_CC_ENGINES_GPU_SORT_H_
#define TF_OPT_CC_ENGINES_GPU_SORT_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// What becomes of rows that aren't there. Pointers are to the device's memory.
struct GpuRowCheck {
  const bool* enabled;  // If not, no row is read.
  bool* valid;          // Cleared by the first of them, which is printed, ...
  bool writes;          // ... and whether that step was to write.
};

// One thread: computes the key of one entry of a batch.
TF_OPT_HOST_DEVICE inline void FillKey(const GpuSliceBatch& batch,
                                       const GpuRowCheck& check, int64_t entry,
                                       int64_t* keys, int64_t* numbers) {
  const int i = TensorOfTile(batch.entry_ends, batch.count, entry);
  const GpuSlices& slices = batch.slices[i];
  const int64_t k = entry - batch.entry_begin(i);
  keys[entry] = batch.no_key();
  numbers[entry] = k;
  if (!*check.enabled) return;
  const int64_t row = slices.Row(k);
  if (row >= 0 && row < slices.rows) {
    keys[entry] = batch.key_begin(i) + row;
    return;
  }
  // Threads that run beside each other may each find that they are the first.
  if (!*check.valid) return;
  *check.valid = false;
  const bool has_values = k < slices.count;
  printf(
      "tf_opt: `%s[%d]` must be in [0, %lld), the rows of `variables[%d]`, got "
      "%lld at %lld; %s\n",
      has_values ? "indices" : "accumulated_rows", batch.first + i,
      static_cast<long long>(slices.rows), batch.first + i,
      static_cast<long long>(row),
      static_cast<long long>(has_values ? k : k - slices.count),
      check.writes ? "nothing was written" : "it was not counted");
}

// How many bits the keys of a batch have.
inline int KeyBits(const GpuSliceBatch& batch) {
  int bits = 1;
  while (batch.no_key() >> bits > 0) ++bits;
  return bits;
}

// Of the device's memory.
std::size_t SortWorkspaceBytes(const std::vector<GpuSliceBatch>& batches);

// Sorts the entries of every batch, in the stream's order: all rows have been
// checked before the first batch is worked on. `workspace` must be aligned for
// int64_t.
const char* SortOnGpu(const std::vector<GpuSliceBatch>& batches,
                      const GpuRowCheck& check, void* workspace, void* stream,
                      std::vector<GpuSortedEntries>* sorted);

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_SORT_H_
