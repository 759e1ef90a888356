#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tf_opt/cc/engines/gpu_sort.h"

namespace tf_opt {

std::size_t SortWorkspaceBytes(const std::vector<GpuSliceBatch>& batches) {
  int64_t entries = 0;
  for (const GpuSliceBatch& batch : batches) entries += batch.entries();
  return 2 * entries * sizeof(int64_t);
}

const char* SortOnGpu(const std::vector<GpuSliceBatch>& batches,
                      const GpuRowCheck& check, void* workspace, void* stream,
                      std::vector<GpuSortedEntries>* sorted) {
  auto* at = static_cast<int64_t*>(workspace);
  for (const GpuSliceBatch& batch : batches) {
    const int64_t count = batch.entries();
    std::vector<int64_t> keys(count), numbers(count), order(count);
    for (int64_t k = 0; k < count; ++k) {
      FillKey(batch, check, k, keys.data(), numbers.data());
    }
    // By the bits that a GPU looks at.
    const int64_t mask = (int64_t{1} << KeyBits(batch)) - 1;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return (keys[a] & mask) < (keys[b] & mask);
    });
    for (int64_t k = 0; k < count; ++k) {
      at[k] = keys[order[k]];
      at[count + k] = numbers[order[k]];
    }
    sorted->push_back({at, at + count, count});
    at += 2 * count;
  }
  return nullptr;
}

}  // namespace tf_opt
