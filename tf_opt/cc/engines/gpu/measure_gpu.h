// The GPU engine that measures gradients: a warp measures a tile; then a warp
// adds up a tensor's tiles.
#ifndef TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_H_

#include <cstdint>
#include <type_traits>

#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/gpu_state.h"
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Multiple of its lanes that a thread requests before it needs the first.
constexpr int kGpuElementsInFlight = 4;

// Measures the tiles of a batch of tensors, a warp each.
template <typename T>
struct MeasureTilesWork {
  using V = ComputeType<T>;

  TF_OPT_RULE_INLINE GpuLanes AddUp(int64_t k, int thread) const {
    GpuLanes lanes;
    if (!ReadOnce(arguments.enabled)) return lanes;
    const V scale = static_cast<V>(ReadOnce(arguments.gradient_scale));
    const Tile tile = batch.tile(static_cast<int32_t>(k));
    const MeasuredTensor<T>& tensor = batch.tensors[tile.tensor];
    if (tensor.accumulator == nullptr) {
      AddUp<false>(scale, tensor, tile, thread, &lanes);
    } else {
      AddUp<true>(scale, tensor, tile, thread, &lanes);
    }
    return lanes;
  }

  TF_OPT_RULE_INLINE void Finish(int64_t k, int thread, const GpuLanes& lanes,
                                 double sum) const {
    if (thread == 0) tiles[batch.first_tile + k] = {sum, lanes.finite};
  }

  GpuBatch<MeasuredTensor<T>> batch;
  MeasureArguments arguments;
  Measure* tiles;

 private:
  // Neighbours of each array, loaded at once.
  template <bool kAccumulated, int kCount>
  struct Neighbours {
    TF_OPT_RULE_INLINE void Load(const MeasuredTensor<T>& tensor, int64_t at) {
      if constexpr (kAccumulated) accumulator.Load(tensor.accumulator + at);
      // Those that have only some rows have an accumulator.
      if (kAccumulated && kCount == 1 && tensor.is_sparse()) {
        at = tensor.rows.Find(at);
        if (at < 0) return;
      }
      gradient.Load(tensor.gradient + at);
    }
    TF_OPT_RULE_INLINE V Value(V scale, int j) const {
      const V g = GpuConvert::Widen(gradient.elements[j]);
      if constexpr (kAccumulated) {
        return MeasuredValue(scale, g, accumulator.elements[j]);
      } else {
        return MeasuredValue(scale, g);
      }
    }

    GpuPack<T, kCount> gradient = {};
    GpuPack<V, kCount> accumulator;
  };

  template <bool kAccumulated>
  TF_OPT_RULE_INLINE static void AddUp(V scale, const MeasuredTensor<T>& tensor,
                                       const Tile& tile, int thread,
                                       GpuLanes* lanes) {
    const int64_t first = tile.begin + thread * kLanesPerThread;
    const int64_t end = tile.begin + tile.size;
    int64_t at = first;
    // Adds so many elements to each lane; all are loaded before the first is
    // needed.
    const auto add = [&](auto count) {
      constexpr int kCount = decltype(count)::value;
      for (; at + (kCount - 1) * kLanes + kLanesPerThread <= end;
           at += kCount * kLanes) {
        Neighbours<kAccumulated, kLanesPerThread> neighbours[kCount];
        for (int u = 0; u < kCount; ++u) {
          neighbours[u].Load(tensor, at + u * kLanes);
        }
        for (int u = 0; u < kCount; ++u) {
          for (int j = 0; j < kLanesPerThread; ++j) {
            lanes->AddSquare(j, neighbours[u].Value(scale, j));
          }
        }
      }
    };
    if (!tensor.is_sparse() &&
        GpuPack<T, kLanesPerThread>::IsAligned(tensor.gradient) &&
        GpuPack<V, kLanesPerThread>::IsAligned(tensor.accumulator)) {
      add(std::integral_constant<int, kGpuElementsInFlight>());
      add(std::integral_constant<int, 1>());
    }
    const auto value = [&](int64_t k) {
      Neighbours<kAccumulated, 1> one;
      one.Load(tensor, k);
      return one.Value(scale, 0);
    };
    // The last few elements, or all if they can't be loaded at once.
    for (; at < end; at += kLanes) {
      for (int j = 0; j < kLanesPerThread; ++j) {
        if (at + j < end) lanes->AddSquare(j, value(at + j));
      }
    }
    // A finite sum has only finite terms, so this is almost never needed.
    for (int j = 0; j < kLanesPerThread; ++j) {
      if (IsFinite(lanes->sums[j])) continue;
      for (int64_t k = first + j; k < end && lanes->finite; k += kLanes) {
        lanes->finite = IsFinite(value(k));
      }
    }
  }
};

// Adds up the tiles of a batch's tensors, a warp each.
template <typename T>
struct AddTilesWork {
  TF_OPT_RULE_INLINE GpuLanes AddUp(int64_t i, int thread) const {
    const int32_t begin = batch.begin(static_cast<int>(i));
    const Measure* const own = tiles + batch.first_tile + begin;
    const int64_t count = batch.ends[i] - begin;
    GpuLanes lanes;
    for (int64_t k = thread * kLanesPerThread; k < count; k += kLanes) {
      for (int j = 0; j < kLanesPerThread; ++j) {
        if (k + j < count) {
          lanes.sums[j] += own[k + j].sum_of_squares;
          lanes.finite &= own[k + j].finite;
        }
      }
    }
    return lanes;
  }

  TF_OPT_RULE_INLINE void Finish(int64_t i, int thread, const GpuLanes& lanes,
                                 double sum) const {
    if (thread != 0) return;
    arguments.sums_of_squares[batch.first + i] = CanonicalNan(sum);
    arguments.finite[batch.first + i] = lanes.finite;
  }

  GpuBatch<MeasuredTensor<T>> batch;
  MeasureArguments arguments;
  const Measure* tiles;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_H_
