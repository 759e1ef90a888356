// The CPU engine that measures gradients: one reduction over many tensors, in
// one launch, with the same bits on every instruction set and any number of
// threads.
#ifndef TF_OPT_CC_ENGINES_CPU_MEASURE_CPU_H_
#define TF_OPT_CC_ENGINES_CPU_MEASURE_CPU_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Measures all tensors.
template <typename T>
void MeasureGradients(const std::vector<MeasuredTensor<T>>& tensors,
                      const MeasureArguments& arguments, CpuTarget target,
                      const CpuThreads& threads) {
  using V = ComputeType<T>;
  std::vector<int64_t> sizes;
  sizes.reserve(tensors.size());
  int64_t bytes_per_element = sizeof(T);
  const bool enabled = ReadOnce(arguments.enabled);
  for (const auto& tensor : tensors) {
    sizes.push_back(enabled ? tensor.size : 0);
    if (tensor.accumulator != nullptr) {
      bytes_per_element = sizeof(T) + sizeof(V);
    }
  }

  const TileList list(sizes);
  std::vector<Measure> tiles(list.size());
  const auto measure = TF_OPT_OF_CPU_TARGET(target, RangeLoopsOf<T>()).measure;
  const auto scale = static_cast<V>(ReadOnce(arguments.gradient_scale));
  ForRanges(sizes, bytes_per_element, threads,
            [&](int i, int64_t begin, int64_t end) {
              const MeasuredTensor<T>& tensor = tensors[i];
              // A tile of a dense gradient: zeros, but for the rows that it
              // has.
              alignas(64) T dense[kTileSize];
              if (tensor.is_sparse()) std::memset(dense, 0, sizeof(dense));
              for (; begin < end; begin += kTileSize) {
                const int64_t size = std::min(end - begin, kTileSize);
                Measure& tile = tiles[list.begin(i) + begin / kTileSize];
                const V* const accumulator = tensor.accumulator == nullptr
                                                 ? nullptr
                                                 : tensor.accumulator + begin;
                if (!tensor.is_sparse()) {
                  tile = measure(scale, tensor.gradient + begin, accumulator,
                                 size);
                  continue;
                }
                tensor.rows.ForParts(
                    begin, size, [&](int64_t from, int64_t to, int64_t count) {
                      std::copy_n(tensor.gradient + from, count, dense + to);
                    });
                tile = measure(scale, dense, accumulator, size);
                tensor.rows.ForParts(begin, size,
                                     [&](int64_t, int64_t to, int64_t count) {
                                       std::fill_n(dense + to, count, T());
                                     });
              }
            });

  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
    double lanes[kLanes] = {};
    bool finite = true;
    for (int64_t k = list.begin(i); k < list.end(i); ++k) {
      lanes[(k - list.begin(i)) % kLanes] += tiles[k].sum_of_squares;
      finite &= tiles[k].finite;
    }
    arguments.sums_of_squares[i] = CanonicalNan(AddLanes<kLanes>(lanes));
    arguments.finite[i] = finite;
  }
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_MEASURE_CPU_H_
