// Runs the CPU engine's work on several threads.
#ifndef TF_OPT_CC_ENGINES_CPU_PARALLEL_FOR_H_
#define TF_OPT_CC_ENGINES_CPU_PARALLEL_FOR_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tf_opt/cc/engines/tiles.h"

namespace tf_opt {

// Runs body(begin, end) over all of [0, total), in pieces of about
// `block_size`, perhaps on several threads.
using ParallelFor =
    std::function<void(int64_t total, int64_t block_size,
                       const std::function<void(int64_t, int64_t)>& body)>;

// Below this many bytes waking another thread costs more than it saves (an MLP
// of 350 KB took twice the time with it).
constexpr int64_t kInlineBytes = 512 * 1024;
// Small enough that one slow core delays the step little, large enough that
// distributing them costs nothing.
constexpr int64_t kLargestPieceBytes = 4 * 1024 * 1024;
constexpr int kPiecesPerThread = 8;

// Calls apply(i, begin, end) for ranges that cover all elements of arrays of
// these sizes. The work is divided into tiles of all arrays, so a thousand
// small arrays use the threads as well as a large one.
inline void ForRanges(std::vector<int64_t> sizes, int64_t bytes_per_element,
                      int num_threads, const ParallelFor& parallel_for,
                      const std::function<void(int, int64_t, int64_t)>& apply) {
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  if (total == 0) return;
  const TileTable tiles(std::move(sizes));
  // Neighbouring tiles of an array at once.
  const auto body = [&](int64_t begin, int64_t end) {
    for (int i = tiles[begin].tensor; begin < end; ++i) {
      const int64_t stop = std::min(end, tiles.end(i));
      if (begin == stop) continue;
      const int64_t first = tiles.begin(i);
      apply(i, (begin - first) * kTileSize,
            std::min((stop - first) * kTileSize, tiles.tensor_size(i)));
      begin = stop;
    }
  };

  if (total * bytes_per_element <= kInlineBytes || num_threads <= 1) {
    body(0, tiles.size());
    return;
  }
  const int64_t piece = std::clamp(total / (kPiecesPerThread * num_threads),
                                   kInlineBytes / 2 / bytes_per_element,
                                   kLargestPieceBytes / bytes_per_element);
  // Counts tiles, which may be smaller than their size.
  parallel_for(tiles.size(), std::max<int64_t>(1, piece * tiles.size() / total),
               body);
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_PARALLEL_FOR_H_
