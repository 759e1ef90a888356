// The CPU engine that measures gradients: one reduction over many tensors, in
// one launch, with the same bits on every instruction set and any number of
// threads.
#ifndef TF_OPT_CC_ENGINES_CPU_MEASURE_CPU_H_
#define TF_OPT_CC_ENGINES_CPU_MEASURE_CPU_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/parallel_for.h"
#include "tf_opt/cc/engines/cpu/range_loops.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"

namespace tf_opt {

// Measures tensors[i], for all i. Their gradients have only rows[i], unless
// `rows` is empty.
template <typename T>
std::vector<Measure> MeasureGradients(
    const std::vector<MeasuredTensor<T>>& tensors, double gradient_scale,
    CpuTarget target, int num_threads, const ParallelFor& parallel_for,
    const std::vector<GradientRows>& rows = {}) {
  std::vector<int64_t> sizes;
  sizes.reserve(tensors.size());
  int64_t bytes = 0;
  for (const auto& tensor : tensors) {
    sizes.push_back(tensor.size);
    bytes += tensor.size * sizeof(T);
    if (tensor.accumulator != nullptr) {
      bytes += tensor.size * sizeof(ComputeType<T>);
    }
  }

  const TileTable table(std::move(sizes));
  std::vector<Measure> tiles(table.size());
  const auto measure = TF_OPT_OF_CPU_TARGET(target, RangeLoopsOf<T>()).measure;
  const auto scale = static_cast<ComputeType<T>>(gradient_scale);
  const auto body = [&](int64_t begin, int64_t end) {
    // A tile of a dense gradient: zeros, but for the rows that it has.
    alignas(64) T dense[kTileSize];
    if (!rows.empty()) std::memset(dense, 0, sizeof(dense));
    for (int64_t k = begin; k < end; ++k) {
      const Tile tile = table[k];
      const MeasuredTensor<T>& tensor = tensors[tile.tensor];
      const ComputeType<T>* const accumulator =
          tensor.accumulator == nullptr ? nullptr
                                        : tensor.accumulator + tile.begin;
      if (rows.empty()) {
        tiles[k] = measure(scale, tensor.gradient + tile.begin, accumulator,
                           tile.size);
        continue;
      }
      const GradientRows& own = rows[tile.tensor];
      own.ForParts(tile.begin, tile.size,
                   [&](int64_t from, int64_t to, int64_t count) {
                     std::copy_n(tensor.gradient + from, count, dense + to);
                   });
      tiles[k] = measure(scale, dense, accumulator, tile.size);
      own.ForParts(tile.begin, tile.size,
                   [&](int64_t, int64_t to, int64_t count) {
                     std::fill_n(dense + to, count, T());
                   });
    }
  };
  if (bytes <= kInlineBytes || num_threads <= 1) {
    body(0, table.size());
  } else {
    // Counts all tiles as full; only those of small tensors are not.
    const int64_t tile_bytes = kTileSize * sizeof(ComputeType<T>);
    parallel_for(table.size(),
                 std::clamp(table.size() / (kPiecesPerThread * num_threads),
                            kInlineBytes / 2 / tile_bytes,
                            kLargestPieceBytes / tile_bytes),
                 body);
  }

  std::vector<Measure> measures;
  measures.reserve(tensors.size());
  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
    double lanes[kLanes] = {};
    bool finite = true;
    for (int64_t k = table.begin(i); k < table.end(i); ++k) {
      lanes[(k - table.begin(i)) % kLanes] += tiles[k].sum_of_squares;
      finite &= tiles[k].finite;
    }
    measures.push_back({CanonicalNan(AddLanes<kLanes>(lanes)), finite});
  }
  return measures;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_MEASURE_CPU_H_
