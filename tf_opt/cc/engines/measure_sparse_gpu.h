// The GPU engine that measures sparse gradients, but for what only CUDA's
// compiler understands. As with dense ones a warp measures a tile: it walks the
// rows of which the tile has a part, and each thread adds the squares of its
// lanes' elements. What is not there are zeros, which add nothing.
#ifndef TF_OPT_CC_ENGINES_MEASURE_SPARSE_GPU_H_
#define TF_OPT_CC_ENGINES_MEASURE_SPARSE_GPU_H_

#include <cstdint>

#include "tf_opt/cc/engines/gpu_pack.h"
#include "tf_opt/cc/engines/gpu_row_sum.h"
#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/measure_gpu.h"
#include "tf_opt/cc/engines/measure_gpu_launch.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// The tables of one launch, passed by value. Their gradients are the values.
template <typename T>
struct GpuMeasuredTables {
  GpuSliceBatch slices;
  GpuMeasureBatch<T, kGpuTables> tables;
};

// One thread of a warp that measures a tile. `Convert` widens and narrows
// 16-bit elements.
template <typename Convert, typename T>
class GpuSparseTileThread {
 public:
  using V = ComputeType<T>;

  static_assert(sizeof(GpuMeasuredTables<T>) + sizeof(GpuSortedEntries) +
                        sizeof(GpuMeasureArguments) <=
                    kGpuArgumentBytes - 64,
                "a launch must be told of kGpuTables tables");

  TF_OPT_RULE_INLINE static GpuLanes Run(const GpuMeasuredTables<T>& batch,
                                         const GpuSortedEntries& entries,
                                         const GpuMeasureArguments& arguments,
                                         bool lazy, int32_t k, int thread) {
    GpuLanes lanes;
    if (!ReadOnce(arguments.enabled)) return lanes;
    const V scale = static_cast<V>(ReadOnce(arguments.gradient_scale));
    const int i = TensorOfTile(batch.tables.ends, batch.tables.count, k);
    const MeasuredTensor<T>& table = batch.tables.tensors[i];
    const GpuSlices& slices = batch.slices.slices[i];
    const Tile tile = TileOfTensor(i, table.size, k - batch.tables.begin(i));
    const int64_t tile_end = tile.begin + tile.size;
    const int64_t first_key = batch.slices.key_begin(i);
    // From the first row that ends behind the tile's begin.
    int64_t entry = entries.Find(first_key + tile.begin / slices.width);
    for (int64_t done = tile.begin; done < tile_end;) {
      const int64_t key =
          entry < entries.count ? entries.keys[entry] : batch.slices.no_key();
      // Of the row that occurs next, in this tile or behind it.
      const int64_t row_begin = key < batch.slices.key_ends[i]
                                    ? (key - first_key) * slices.width
                                    : tile_end;
      const int64_t zeros_end = Least(row_begin, tile_end);
      if (ZerosCount(lazy, table.accumulator, scale) && done < zeros_end) {
        AddUp(tile.begin, done, zeros_end, thread, &lanes, [&](int64_t at) {
          return table.accumulator == nullptr
                     ? MeasuredValue(scale, V(0))
                     : MeasuredValue(scale, V(0), table.accumulator[at]);
        });
      }
      if (row_begin >= tile_end) break;
      const int64_t begin = done < row_begin ? row_begin : done;
      const int64_t end = Least(row_begin + slices.width, tile_end);
      const GpuRowSum<Convert, T> sum = {table.gradient, slices, entries, entry,
                                         key};
      AddUp(tile.begin, begin, end, thread, &lanes, [&](int64_t at) {
        const V gradient = sum.At(at - row_begin);
        return table.accumulator == nullptr
                   ? MeasuredValue(scale, gradient)
                   : MeasuredValue(scale, gradient, table.accumulator[at]);
      });
      done = end;
      while (entry < entries.count && entries.keys[entry] == key) ++entry;
    }
    return lanes;
  }

 private:
  TF_OPT_RULE_INLINE static int64_t Least(int64_t a, int64_t b) {
    return a < b ? a : b;
  }

  // Adds the elements [begin, end) of the tile that begins at `tile`, as far
  // as they are in the lanes' turn.
  template <typename Value>
  TF_OPT_RULE_INLINE static void AddUp(int64_t tile, int64_t begin, int64_t end,
                                       int thread, GpuLanes* lanes,
                                       const Value& value) {
    int64_t at = begin - (begin - tile) % kLanes + thread * kLanesPerThread;
    for (; at < end; at += kLanes) {
      for (int j = 0; j < kLanesPerThread; ++j) {
        if (at + j < begin || at + j >= end) continue;
        const V x = value(at + j);
        lanes->sums[j] += Square(x);
        lanes->finite &= IsFinite(x);
      }
    }
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_MEASURE_SPARSE_GPU_H_
