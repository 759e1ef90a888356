// Tensors in pieces of one size, for every pass over them: what a pass reduces
// is added up within a tile, so that it doesn't depend on who works on which.
#ifndef TF_OPT_CC_ENGINES_TILES_H_
#define TF_OPT_CC_ENGINES_TILES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Few enough elements that tiles spread evenly over threads, enough that
// finding one costs nothing.
constexpr int64_t kTileSize = 8192;

// The elements [begin, begin + size) of one tensor. Only a tensor's last tile
// is smaller than kTileSize.
struct Tile {
  int tensor;
  int64_t begin;
  int64_t size;
};

// How many tiles a tensor of `size` elements has; an empty one has none.
TF_OPT_HOST_DEVICE inline int64_t CountTiles(int64_t size) {
  return size / kTileSize + (size % kTileSize != 0);
}

// The tensor of tile `k`: the first of `count` with ends[i] > k, where ends[i]
// is how many tiles the tensors up to i have together.
template <typename Index>
TF_OPT_HOST_DEVICE int TensorOfTile(const Index* ends, int count, int64_t k) {
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (ends[middle] > k) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Tile `k` of a tensor of `size` elements.
TF_OPT_HOST_DEVICE inline Tile TileOfTensor(int tensor, int64_t size,
                                            int64_t k) {
  const int64_t begin = k * kTileSize;
  const int64_t left = size - begin;
  return {tensor, begin, left < kTileSize ? left : kTileSize};
}

// The tiles of a list of tensors, in the tensors' order.
class TileTable {
 public:
  explicit TileTable(std::vector<int64_t> sizes) : sizes_(std::move(sizes)) {
    ends_.reserve(sizes_.size());
    int64_t end = 0;
    for (const int64_t size : sizes_) ends_.push_back(end += CountTiles(size));
  }

  // How many tiles there are.
  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }

  Tile operator[](int64_t k) const {
    const int tensor =
        TensorOfTile(ends_.data(), static_cast<int>(ends_.size()), k);
    return TileOfTensor(tensor, sizes_[tensor], k - begin(tensor));
  }

  // The tiles of tensor `i` are those in [begin(i), end(i)).
  int64_t begin(int i) const { return i == 0 ? 0 : ends_[i - 1]; }
  int64_t end(int i) const { return ends_[i]; }

  // The elements of tensor `i`.
  int64_t tensor_size(int i) const { return sizes_[i]; }

 private:
  std::vector<int64_t> sizes_;
  std::vector<int64_t> ends_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TILES_H_
