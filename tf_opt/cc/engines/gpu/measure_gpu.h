// The GPU engine that measures gradients: a warp measures a tile; then a warp
// adds up a tensor's tiles.
#ifndef TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_H_

#include <cstdint>
#include <type_traits>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/gpu_state.h"
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Multiple of its lanes that a thread requests before it needs the first.
constexpr int kGpuElementsInFlight = 4;

// Measures the tiles of a batch of tensors, a warp each.
template <typename Device, typename T>
class MeasureTilesWork {
 public:
  using Convert = typename Device::Convert;
  using V = ComputeType<T>;

  MeasureTilesWork(const GpuBatch<GpuMeasuredTensor<T>>& batch,
                   const GpuMeasureArguments& arguments, Measure* tiles)
      : batch_(batch), arguments_(arguments), tiles_(tiles) {}

  TF_OPT_RULE_INLINE GpuLanes AddUp(int64_t k, int thread) const {
    GpuLanes lanes;
    if (!ReadOnce(arguments_.enabled)) return lanes;
    const V scale = static_cast<V>(ReadOnce(arguments_.gradient_scale));
    const Tile tile = batch_.tile(static_cast<int32_t>(k));
    const GpuMeasuredTensor<T>& tensor = batch_.tensors[tile.tensor];
    const T* const gradient = tensor.gradient + tile.begin;
    if (!tensor.has_all_rows) {
      AddUp(RowValues{scale, tensor, tile.begin}, tile.size, thread, &lanes);
    } else if (tensor.accumulator == nullptr) {
      AddUp(Values<false>{scale, gradient, nullptr}, tile.size, thread, &lanes);
    } else {
      AddUp(Values<true>{scale, gradient, tensor.accumulator + tile.begin},
            tile.size, thread, &lanes);
    }
    return lanes;
  }

  TF_OPT_RULE_INLINE void Finish(int64_t k, int thread, const GpuLanes& lanes,
                                 double sum) const {
    if (thread == 0) tiles_[batch_.first_tile + k] = {sum, lanes.finite};
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

  // Of a gradient that has some rows.
  struct RowValues {
    TF_OPT_RULE_INLINE V Value(int64_t at) const {
      const int64_t element = begin + at;
      const int64_t row = element / tensor.width;
      const int64_t k = FirstNotLess(tensor.rows, tensor.row_count, row);
      const bool has = k < tensor.row_count && tensor.rows[k] == row;
      const V g = has ? Convert::Widen(
                            tensor.gradient[(k - row) * tensor.width + element])
                      : V(0);
      return MeasuredValue(scale, g, tensor.accumulator[element]);
    }

    V scale;
    const GpuMeasuredTensor<T>& tensor;
    int64_t begin;
  };

  template <typename Measured>
  TF_OPT_RULE_INLINE static void AddUp(const Measured& values, int64_t size,
                                       int thread, GpuLanes* lanes) {
    const int64_t first = thread * kLanesPerThread;
    int64_t at = first;
    if constexpr (!std::is_same<Measured, RowValues>::value) {
      if (values.IsAligned()) {
        constexpr int64_t kRows = kGpuElementsInFlight * kLanes;
        for (; at - first + kRows <= size; at += kRows) {
          AddNeighbours<kGpuElementsInFlight>(values, at, lanes);
        }
        for (; at + kLanesPerThread <= size; at += kLanes) {
          AddNeighbours<1>(values, at, lanes);
        }
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

  const GpuBatch<GpuMeasuredTensor<T>> batch_;
  const GpuMeasureArguments arguments_;
  Measure* const tiles_;
};

// Adds up the tiles of a batch's tensors, a warp each.
template <typename T>
class AddTilesWork {
 public:
  AddTilesWork(const GpuBatch<GpuMeasuredTensor<T>>& batch,
               const GpuMeasureArguments& arguments, const Measure* tiles)
      : batch_(batch), arguments_(arguments), tiles_(tiles) {}

  TF_OPT_RULE_INLINE GpuLanes AddUp(int64_t i, int thread) const {
    const int32_t begin = batch_.begin(static_cast<int>(i));
    const Measure* const tiles = tiles_ + batch_.first_tile + begin;
    const int64_t count = batch_.ends[i] - begin;
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

  TF_OPT_RULE_INLINE void Finish(int64_t i, int thread, const GpuLanes& lanes,
                                 double sum) const {
    if (thread != 0) return;
    arguments_.sums_of_squares[batch_.first + i] = CanonicalNan(sum);
    arguments_.finite[batch_.first + i] = lanes.finite;
  }

 private:
  const GpuBatch<GpuMeasuredTensor<T>> batch_;
  const GpuMeasureArguments arguments_;
  const Measure* const tiles_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_MEASURE_GPU_H_
