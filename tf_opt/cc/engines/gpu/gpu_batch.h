// Divides a list of tensors into launches for a GPU.
#ifndef TF_OPT_CC_ENGINES_GPU_GPU_BATCH_H_
#define TF_OPT_CC_ENGINES_GPU_GPU_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Bytes of arguments that a kernel may have, since CUDA 12.1.
constexpr std::size_t kGpuArgumentBytes = 32764;

// The elements [begin, begin + size) of one tensor.
struct Tile {
  int tensor;
  int64_t begin;
  int64_t size;
};

// The tensors of one launch, passed by value, so that no memory must be filled
// first.
template <typename Tensor>
struct GpuBatch {
  // The space that this struct's other members and the other arguments leave.
  static constexpr int kCapacity =
      (kGpuArgumentBytes - 128) / (sizeof(Tensor) + sizeof(int32_t));

  TF_OPT_HOST_DEVICE int32_t begin(int i) const {
    return i == 0 ? 0 : ends[i - 1];
  }
  TF_OPT_HOST_DEVICE int32_t tiles() const { return begin(count); }
  TF_OPT_HOST_DEVICE Tile tile(int32_t k) const {
    const int i = TensorOfTile(ends, count, k);
    const int64_t from = (k - begin(i)) * kTileSize;
    const int64_t left = tensors[i].size - from;
    return {i, from, left < kTileSize ? left : kTileSize};
  }

  int count = 0;
  int64_t first = 0;        // Index of tensors[0] among all tensors, ...
  int64_t first_tile = 0;   // ... and of its first tile among all tiles.
  int32_t ends[kCapacity];  // End of each tensor's tiles.
  Tensor tensors[kCapacity];
};

// Splits all tensors into the fewest launches that can describe them.
template <typename Tensor>
std::vector<GpuBatch<Tensor>> PlanGpuBatches(
    const std::vector<Tensor>& tensors) {
  std::vector<GpuBatch<Tensor>> batches;
  int64_t tiles = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (batches.empty() || batches.back().count == batches.back().kCapacity) {
      batches.emplace_back();
      batches.back().first = i;
      batches.back().first_tile = tiles;
    }
    GpuBatch<Tensor>& batch = batches.back();
    tiles += CountTiles(tensors[i].size);
    batch.ends[batch.count] = static_cast<int32_t>(tiles - batch.first_tile);
    batch.tensors[batch.count] = tensors[i];
    ++batch.count;
  }
  return batches;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_GPU_BATCH_H_
