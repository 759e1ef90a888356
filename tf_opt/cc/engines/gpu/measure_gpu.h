// The GPU engine that measures gradients, without the parts that need CUDA's
// compiler: the work of one thread. A warp measures a tile; then a warp adds up
// a tensor's tiles.
#ifndef TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_H_

#include <cstdint>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/gpu_state.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

constexpr int kWarpThreads = 32;
// Neighbours that a thread loads: 16 bytes of float32.
constexpr int kLanesPerThread = kLanes / kWarpThreads;
// Multiple of its lanes that a thread requests before it needs the first.
constexpr int kGpuElementsInFlight = 4;

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

  TF_OPT_RULE_INLINE static GpuLanes Run(
      const GpuBatch<MeasuredTensor<T>>& batch,
      const GpuMeasureArguments& arguments, int32_t k, int thread) {
    GpuLanes lanes;
    if (!ReadOnce(arguments.enabled)) return lanes;
    const V scale = static_cast<V>(ReadOnce(arguments.gradient_scale));
    const Tile tile = batch.tile(k);
    const MeasuredTensor<T>& tensor = batch.tensors[tile.tensor];
    const T* const gradient = tensor.gradient + tile.begin;
    if (tensor.accumulator == nullptr) {
      AddUp(Values<false>{scale, gradient, nullptr}, tile.size, thread, &lanes);
    } else {
      AddUp(Values<true>{scale, gradient, tensor.accumulator + tile.begin},
            tile.size, thread, &lanes);
    }
    return lanes;
  }

 private:
  // Neighbours of each array, loaded at once.
  template <int kCount>
  struct Neighbours {
    GpuPack<T, kCount> gradient;
    GpuPack<V, kCount> accumulator;
  };

  // What is measured of a tile.
  template <bool kAccumulated>
  struct Values {
    TF_OPT_RULE_INLINE bool IsAligned() const {
      return GpuPack<T, kLanesPerThread>::IsAligned(gradient) &&
             GpuPack<V, kLanesPerThread>::IsAligned(accumulator);
    }
    template <int kCount>
    TF_OPT_RULE_INLINE void Load(int64_t at, Neighbours<kCount>* to) const {
      to->gradient.Load(gradient + at);
      if constexpr (kAccumulated) to->accumulator.Load(accumulator + at);
    }
    template <int kCount>
    TF_OPT_RULE_INLINE V Value(const Neighbours<kCount>& from, int j) const {
      const V g = Convert::Widen(from.gradient.elements[j]);
      if constexpr (kAccumulated) {
        return MeasuredValue(scale, g, from.accumulator.elements[j]);
      } else {
        return MeasuredValue(scale, g);
      }
    }
    TF_OPT_RULE_INLINE V Value(int64_t at) const {
      Neighbours<1> one;
      Load(at, &one);
      return Value(one, 0);
    }

    V scale;
    const T* gradient;
    const V* accumulator;
  };

  template <bool kAccumulated>
  TF_OPT_RULE_INLINE static void AddUp(const Values<kAccumulated>& values,
                                       int64_t size, int thread,
                                       GpuLanes* lanes) {
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
  template <int kCount, bool kAccumulated>
  TF_OPT_RULE_INLINE static void AddNeighbours(
      const Values<kAccumulated>& values, int64_t at, GpuLanes* lanes) {
    Neighbours<kLanesPerThread> neighbours[kCount];
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
