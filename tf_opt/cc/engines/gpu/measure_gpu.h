// The GPU engine that measures gradients, without the parts that need CUDA's
// compiler: how tensors become launches, and the work of one thread. A warp
// measures a tile; then a warp adds up a tensor's tiles.
#ifndef TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/gpu/gpu_pack.h"
#include "tf_opt/cc/engines/gpu/measure_gpu_launch.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Neighbours that a thread loads: 16 bytes of float32.
constexpr int kLanesPerThread = kLanes / kWarpThreads;
// Multiple of its lanes that a thread requests before it needs the first.
constexpr int kGpuElementsInFlight = 4;

// The tensors of one launch, passed by value, so that no memory must be filled
// first.
template <typename T>
struct GpuMeasureBatch {
  // As many as fit beside the other members and the other arguments.
  static constexpr int kCapacity =
      (kGpuArgumentBytes - 128) / (sizeof(MeasuredTensor<T>) + sizeof(int32_t));

  int count = 0;
  int64_t first = 0;        // Which of all tensors tensors[0] is, ...
  int64_t first_tile = 0;   // ... and which of all tiles its first.
  int32_t ends[kCapacity];  // Behind the last tile of each.
  MeasuredTensor<T> tensors[kCapacity];

  TF_OPT_HOST_DEVICE int32_t begin(int i) const {
    return i == 0 ? 0 : ends[i - 1];
  }
  TF_OPT_HOST_DEVICE int32_t tiles() const { return begin(count); }
};

// Splits all tensors into the fewest launches that can describe them.
template <typename T>
std::vector<GpuMeasureBatch<T>> PlanGpuMeasures(
    const std::vector<MeasuredTensor<T>>& tensors) {
  using Batch = GpuMeasureBatch<T>;
  std::vector<Batch> batches;
  int64_t tiles = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (batches.empty() || batches.back().count == Batch::kCapacity) {
      batches.emplace_back();
      batches.back().first = i;
      batches.back().first_tile = tiles;
    }
    Batch& batch = batches.back();
    tiles += CountTiles(tensors[i].size);
    batch.ends[batch.count] = static_cast<int32_t>(tiles - batch.first_tile);
    batch.tensors[batch.count] = tensors[i];
    ++batch.count;
  }
  return batches;
}

// The lanes of one thread of a warp.
struct GpuLanes {
  double sums[kLanesPerThread] = {};
  bool finite = true;
};

// One thread of a warp that measures a tile. `Convert` widens 16-bit elements.
template <typename Convert, typename T>
class GpuTileThread {
 public:
  using V = ComputeType<T>;

  TF_OPT_RULE_INLINE static GpuLanes Run(const GpuMeasureBatch<T>& batch,
                                         const GpuMeasureArguments& arguments,
                                         int32_t k, int thread) {
    GpuLanes lanes;
    if (!ReadOnce(arguments.enabled)) return lanes;
    const V scale = static_cast<V>(ReadOnce(arguments.gradient_scale));
    const int i = TensorOfTile(batch.ends, batch.count, k);
    const Tile tile =
        TileOfTensor(i, batch.tensors[i].size, k - batch.begin(i));
    const T* const gradient = batch.tensors[i].gradient + tile.begin;
    if (batch.tensors[i].accumulator == nullptr) {
      AddUp(Gradient{scale, gradient}, tile.size, thread, &lanes);
    } else {
      AddUp(Sum{scale, gradient, batch.tensors[i].accumulator + tile.begin},
            tile.size, thread, &lanes);
    }
    return lanes;
  }

 private:
  template <typename E>
  using Pack = GpuPack<E, kLanesPerThread>;

  // Measures a tile: element by element, or neighbours at once.
  struct Gradient {
    struct Neighbours {
      Pack<T> gradient;
    };

    TF_OPT_RULE_INLINE bool IsAligned() const {
      return Pack<T>::IsAligned(gradient);
    }
    TF_OPT_RULE_INLINE void Load(int64_t at, Neighbours* neighbours) const {
      neighbours->gradient.Load(gradient + at);
    }
    TF_OPT_RULE_INLINE V Value(const Neighbours& neighbours, int j) const {
      return MeasuredValue(scale,
                           Convert::Widen(neighbours.gradient.elements[j]));
    }
    TF_OPT_RULE_INLINE V Value(int64_t at) const {
      return MeasuredValue(scale, Convert::Widen(gradient[at]));
    }

    V scale;
    const T* gradient;
  };

  struct Sum {
    struct Neighbours {
      Pack<T> gradient;
      Pack<V> accumulator;
    };

    TF_OPT_RULE_INLINE bool IsAligned() const {
      return Pack<T>::IsAligned(gradient) && Pack<V>::IsAligned(accumulator);
    }
    TF_OPT_RULE_INLINE void Load(int64_t at, Neighbours* neighbours) const {
      neighbours->gradient.Load(gradient + at);
      neighbours->accumulator.Load(accumulator + at);
    }
    TF_OPT_RULE_INLINE V Value(const Neighbours& neighbours, int j) const {
      return MeasuredValue(scale,
                           Convert::Widen(neighbours.gradient.elements[j]),
                           neighbours.accumulator.elements[j]);
    }
    TF_OPT_RULE_INLINE V Value(int64_t at) const {
      return MeasuredValue(scale, Convert::Widen(gradient[at]),
                           accumulator[at]);
    }

    V scale;
    const T* gradient;
    const V* accumulator;
  };

  template <typename Values>
  TF_OPT_RULE_INLINE static void AddUp(const Values& values, int64_t size,
                                       int thread, GpuLanes* lanes) {
    const int64_t first = thread * kLanesPerThread;
    int64_t at = first;
    if (values.IsAligned()) {
      constexpr int64_t kRows = kGpuElementsInFlight * kLanes;
      for (; at - first + kRows <= size; at += kRows) {
        AddNeighbours<kGpuElementsInFlight>(values, at, lanes);
      }
      for (; at + kLanesPerThread <= size; at += kLanes) {
        AddNeighbours<1>(values, at, lanes);
      }
    }
    // The last few elements, or all if they can't be loaded at once.
    for (; at < size; at += kLanes) {
      for (int j = 0; j < kLanesPerThread; ++j) {
        if (at + j < size) lanes->sums[j] += Square(values.Value(at + j));
      }
    }
    // A finite sum has only finite terms, so this is almost never needed.
    for (int j = 0; j < kLanesPerThread; ++j) {
      if (IsFinite(lanes->sums[j])) continue;
      for (int64_t k = first + j; k < size && lanes->finite; k += kLanes) {
        lanes->finite = IsFinite(values.Value(k));
      }
    }
  }

  // Adds kCount elements to each lane, the first at `at`; all are loaded before
  // the first is needed.
  template <int kCount, typename Values>
  TF_OPT_RULE_INLINE static void AddNeighbours(const Values& values, int64_t at,
                                               GpuLanes* lanes) {
    typename Values::Neighbours neighbours[kCount];
    for (int u = 0; u < kCount; ++u) {
      values.Load(at + u * kLanes, &neighbours[u]);
    }
    for (int u = 0; u < kCount; ++u) {
      for (int j = 0; j < kLanesPerThread; ++j) {
        lanes->sums[j] += Square(values.Value(neighbours[u], j));
      }
    }
  }
};

// One thread of a warp that adds up the `count` tiles of a tensor.
TF_OPT_HOST_DEVICE inline GpuLanes AddTilesInThread(const Measure* tiles,
                                                    int64_t count, int thread) {
  GpuLanes lanes;
  for (int64_t k = thread * kLanesPerThread; k < count; k += kLanes) {
    for (int j = 0; j < kLanesPerThread; ++j) {
      if (k + j < count) {
        lanes.sums[j] += tiles[k + j].sum_of_squares;
        lanes.finite &= tiles[k + j].finite;
      }
    }
  }
  return lanes;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_H_
