// The work on many tensors, divided into tiles of one size: what a pass reduces
// is added up within a tile, so that it doesn't depend on who works on which.
// On a GPU a tile is a block's, on a CPU a thread gets some neighbouring tiles.
#ifndef TF_OPT_CC_ENGINES_TILES_H_
#define TF_OPT_CC_ENGINES_TILES_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Few enough elements that tiles spread evenly over threads, enough that
// finding one costs nothing.
constexpr int64_t kTileSize = 8192;

// How many tiles a tensor of `size` elements has, of which only the last is
// smaller than kTileSize; an empty one has none.
TF_OPT_HOST_DEVICE inline int64_t CountTiles(int64_t size) {
  return size / kTileSize + (size % kTileSize != 0);
}

// The tensor of tile `k`: the first of `count` with ends[i] > k, where ends[i]
// is how many tiles the tensors up to i have together.
template <typename Index>
TF_OPT_HOST_DEVICE int TensorOfTile(const Index* ends, int count, int64_t k) {
  return FirstWhere(count - 1, [=](int i) { return ends[i] > k; });
}

// The tiles of a list of tensors, in the tensors' order.
class TileList {
 public:
  explicit TileList(const std::vector<int64_t>& sizes) {
    ends_.reserve(sizes.size());
    int64_t end = 0;
    for (const int64_t size : sizes) ends_.push_back(end += CountTiles(size));
  }

  // How many tiles there are.
  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }

  // The tensor of tile `k`.
  int tensor(int64_t k) const {
    return TensorOfTile(ends_.data(), static_cast<int>(ends_.size()), k);
  }

  // The tiles of tensor `i` are those in [begin(i), end(i)).
  int64_t begin(int i) const { return i == 0 ? 0 : ends_[i - 1]; }
  int64_t end(int i) const { return ends_[i]; }

 private:
  std::vector<int64_t> ends_;
};

// Runs body(begin, end) over all of [0, total), in pieces of about
// `block_size`, perhaps on several threads.
using ParallelFor =
    std::function<void(int64_t total, int64_t block_size,
                       const std::function<void(int64_t, int64_t)>& body)>;

// Threads for the work on a CPU.
struct CpuThreads {
  // Runs body(begin, end) over the numbers of so many tensors.
  template <typename Body>
  void ForTensors(int64_t tensors, const Body& body) const {
    if (tensors == 1 || count <= 1) return body(0, tensors);
    parallel_for(tensors, /*block_size=*/1, body);
  }

  int count = 1;
  ParallelFor parallel_for;
};

// Below this many bytes waking another thread costs more than it saves (an MLP
// of 350 KB took twice the time with it).
constexpr int64_t kInlineBytes = 512 * 1024;
// Small enough that one slow core delays the step little, large enough that
// distributing them costs nothing.
constexpr int64_t kLargestPieceBytes = 4 * 1024 * 1024;
constexpr int kPiecesPerThread = 8;

// Calls use(i, begin, end) for ranges that cover all elements of arrays of
// these sizes. The work is divided into tiles of all arrays, so a thousand
// small arrays use the threads as well as a large one.
template <typename Use>
void ForRanges(const std::vector<int64_t>& sizes, int64_t bytes_per_element,
               const CpuThreads& threads, const Use& use) {
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  if (total == 0) return;
  const TileList tiles(sizes);
  // Neighbouring tiles of an array at once.
  const auto body = [&](int64_t begin, int64_t end) {
    for (int i = tiles.tensor(begin); begin < end; ++i) {
      const int64_t stop = std::min(end, tiles.end(i));
      if (begin == stop) continue;
      const int64_t first = tiles.begin(i);
      use(i, (begin - first) * kTileSize,
          std::min((stop - first) * kTileSize, sizes[i]));
      begin = stop;
    }
  };

  if (total * bytes_per_element <= kInlineBytes || threads.count <= 1) {
    body(0, tiles.size());
    return;
  }
  const int64_t piece = std::clamp(total / (kPiecesPerThread * threads.count),
                                   kInlineBytes / 2 / bytes_per_element,
                                   kLargestPieceBytes / bytes_per_element);
  // Counts tiles, which may be smaller than their size.
  threads.parallel_for(
      tiles.size(), std::max<int64_t>(1, piece * tiles.size() / total), body);
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TILES_H_
