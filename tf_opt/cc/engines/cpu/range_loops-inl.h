// The dense CPU engine's inner loops over a variable, for one instruction set:
// a block at a time in the type of the arithmetic, which a rule then updates.
// Arrays that are of this type already are updated where they are.
//
// What is compiled once per target (range_loops.cc, rule_loops.cc) has
// TF_OPT_CPU_TARGET defined as that target's namespace. Such a translation unit
// must emit no function that another one emits too: the linker keeps one copy,
// perhaps the one this machine cannot run. Hence the namespace, the
// always-inline rules and no standard library calls in here.
//
// The flags matter as much as the code (cpu_targets.bzl): without
// -fno-math-errno and -fno-trapping-math the square root and the maximum are
// not vectorized. -fno-tree-loop-distribute-patterns keeps loops that clear a
// few lines from becoming calls. -ffp-contract=off (tf_opt/copts.bzl) makes
// every target, every vector lane and every loop tail compute the same bits.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tf_opt/cc/engines/cpu/blocks-inl.h"
#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// Prefetches a block of a tensor, which may be absent.
template <bool kWritten, int64_t kSize, typename V>
inline __attribute__((always_inline)) void PrefetchBlock(const V* tensor,
                                                         int64_t start) {
  if (tensor == nullptr) return;
  constexpr int kCacheLine = 64;
  const char* bytes = reinterpret_cast<const char*>(tensor + start);
  for (std::size_t i = 0; i < kSize * sizeof(V); i += kCacheLine) {
    __builtin_prefetch(bytes + i, kWritten);
  }
}

template <int64_t kSize, typename V>
inline __attribute__((always_inline)) void PrefetchState(const StepArray& array,
                                                         int64_t start) {
  if (array.type == StateType::kArithmetic) {
    PrefetchBlock<true, kSize>(static_cast<V*>(array.data), start);
  } else if (array.type == StateType::kBFloat16) {
    PrefetchBlock<true, kSize>(static_cast<BFloat16*>(array.data), start);
  } else {
    PrefetchBlock<true, kSize>(static_cast<float*>(array.data), start);
  }
}

// The frame around the rule, in separate loops over a block, which is in the
// first-level cache by then. Not inlined, to keep the library small.

// Writes the gradient for the rule to `transformed`; `accumulator` may be null.
template <typename V>
__attribute__((noinline)) void TransformBlock(
    const GradientTransform<V> transform, int n, const V* __restrict gradient,
    const V* __restrict accumulator, const V* __restrict variable,
    V* __restrict transformed) {
  if (accumulator == nullptr) {
    for (int i = 0; i < n; ++i) {
      transformed[i] = transform(gradient[i], variable[i]);
    }
  } else {
    for (int i = 0; i < n; ++i) {
      transformed[i] = transform(gradient[i], accumulator[i], variable[i]);
    }
  }
}

// Whether gradients change before the rule takes them.
template <typename T>
inline __attribute__((always_inline)) bool Transforms(
    const Frame<ComputeType<T>>& frame, const DenseTensor<T>& tensor) {
  return tensor.accumulator() != nullptr || !frame.gradient.IsIdentity();
}

// The gradient of a block as the rule takes it.
template <typename V, typename T>
class RuleGradient {
 public:
  RuleGradient(const GradientTransform<V>& transform,
               const TensorRange<T>& range, int64_t start, int n,
               const V* variable, bool transforms)
      : gradient_(range.gradient_at(start), n), values_(gradient_.values()) {
    if (!transforms) return;
    const V* const accumulator = range.tensor.accumulator();
    TransformBlock<V>(transform, n, values_,
                      accumulator == nullptr ? nullptr : accumulator + start,
                      variable, transformed_);
    values_ = transformed_;
  }

  const V* values() const { return values_; }

 private:
  GradientBlock<V, T> gradient_;
  const V* values_;
  alignas(64) V transformed_[kLargestBlock];
};

template <typename V>
__attribute__((noinline)) void ClearBlock(int n, V* values) {
  for (int i = 0; i < n; ++i) values[i] = 0;
}

template <typename V>
__attribute__((noinline)) void AccumulateBlock(
    const GradientTransform<V> transform, int n, const V* __restrict gradient,
    V* __restrict accumulator) {
  for (int i = 0; i < n; ++i) {
    accumulator[i] =
        CanonicalNan(transform.Accumulate(accumulator[i], gradient[i]));
  }
}

template <typename V>
__attribute__((noinline)) void AverageBlock(const MovingAverage<V> average,
                                            int n, V* variable, V* averages) {
  const auto follow = [=](int i) {
    return averages[i] = average(averages[i], variable[i]);
  };
  if (average.overwrite) {
    ForElements(n, [=](int i) { variable[i] = follow(i); });
  } else {
    ForElements(n, [=](int i) { follow(i); });
  }
}

// Moves the average towards the master weights or the stored variable.
template <typename T>
__attribute__((noinline)) void FollowVariable(
    const Frame<ComputeType<T>>& frame, const DenseTensor<T>& tensor,
    int64_t start, int n, RandomBlock* random) {
  using V = ComputeType<T>;
  VariableBlock<T> variable(tensor, start, n);
  StateBlock<V> averages(tensor.average(), start, n);
  AverageBlock<V>(frame.average, n, variable.values(), averages.values());
  averages.Store(frame.RoundingOf(kAverage), random);
  if (frame.average.overwrite) {
    variable.Store(frame.RoundingOf(kVariable), random);
  }
}

// Loads a block of the variable and its slots, calls use(variable, slots) with
// their values, and stores them.
template <typename T, typename Use>
inline __attribute__((always_inline)) void ModifyBlock(
    const Frame<ComputeType<T>>& frame, const DenseTensor<T>& tensor,
    int64_t start, int n, RandomBlock* random, const Use& use) {
  using V = ComputeType<T>;
  VariableBlock<T> variable(tensor, start, n);
  StateBlock<V> slots[kMostSlots] = {{tensor.slot(0), start, n},
                                     {tensor.slot(1), start, n},
                                     {tensor.slot(2), start, n}};
  V* const values[kMostSlots] = {slots[0].values(), slots[1].values(),
                                 slots[2].values()};
  use(variable.values(), values);
  for (int k = 0; k < kMostSlots; ++k) {
    slots[k].Store(frame.RoundingOf(kFrameOperandCount + k), random);
  }
  variable.Store(frame.RoundingOf(kVariable), random);
}

template <typename T>
inline __attribute__((always_inline)) void UpdateCopy(
    const CpuRule<ComputeType<T>>& rule, const TensorRange<T>& range,
    int64_t start, int n, bool transforms) {
  using V = ComputeType<T>;
  const DenseTensor<T>& tensor = range.tensor;
  RandomBlock random(tensor.first + start, n);
  ModifyBlock(rule.frame, tensor, start, n, &random,
              [&](V* variable, V* const* slots) {
                const RuleGradient<V, T> gradient(
                    rule.frame.gradient, range, start, n, variable, transforms);
                rule.loops->update(rule.rule, rule.frame.keep, n, variable,
                                   gradient.values(), slots,
                                   tensor.slot(rule.loops->slots - 1).type);
              });
  if (tensor.accumulator() != nullptr) {
    ClearBlock(n, tensor.accumulator() + start);
  }
  if (tensor.average().data != nullptr) {
    FollowVariable(rule.frame, tensor, start, n, &random);
  }
}

// Whether a step of a variable of the arithmetic's type copies nothing: its
// slots are of that type, too, and the rule takes the gradient as it is.
template <typename T>
inline __attribute__((always_inline)) bool IsInPlace(
    const TensorRange<T>& range, bool transforms) {
  bool in_place = !transforms && range.tensor.average().data == nullptr;
  for (int k = 0; k < kMostSlots; ++k) {
    in_place &= range.tensor.slot(k).type == StateType::kArithmetic;
  }
  return in_place;
}

template <typename V>
inline __attribute__((always_inline)) void UpdateInPlace(
    const CpuRule<V>& rule, const TensorRange<V>& range, int64_t start, int n) {
  V* slots[kMostSlots];
  for (int k = 0; k < kMostSlots; ++k) {
    V* const data = static_cast<V*>(range.tensor.slot(k).data);
    slots[k] = data == nullptr ? nullptr : data + start;
  }
  const V* const gradient = range.gradient_at(start);
  rule.loops->update(rule.rule, rule.frame.keep, n,
                     range.tensor.variable() + start,
                     gradient == nullptr ? kZeros<V> : gradient, slots,
                     StateType::kArithmetic);
}

// To elements with the same rule.
template <typename T>
void UpdateBlocks(const CpuRule<ComputeType<T>>& rule,
                  const TensorRange<T>& range) {
  using V = ComputeType<T>;
  const DenseTensor<T>& tensor = range.tensor;
  const bool transforms = Transforms(rule.frame, tensor);
  constexpr bool kMayBeInPlace = std::is_same<T, V>::value;
  const bool in_place = kMayBeInPlace && IsInPlace(range, transforms);
  const int64_t distance = prefetch_distance;
  constexpr int64_t kSize = kBlockSizeOf<T>;
  // Small blocks are for copies, zeros and prefetching alone: to begin one
  // takes as long as dozens of elements.
  const bool large = in_place && range.gradient != nullptr && distance == 0;
  const int64_t size = large ? kTileSize : kSize;
  for (int64_t start = range.begin; start < range.end; start += size) {
    const int64_t rest = range.end - start;
    const int n = static_cast<int>(rest < size ? rest : size);
    const int64_t ahead = start + distance;
    if (distance > 0 && n == kSize && ahead < range.end) {
      PrefetchBlock<true, kSize>(tensor.variable(), ahead);
      PrefetchBlock<false, kSize>(range.gradient, ahead - range.begin);
      for (int k = 0; k < kMostSlots; ++k) {
        PrefetchState<kSize, V>(tensor.slot(k), ahead);
      }
      PrefetchBlock<true, kSize>(tensor.accumulator(), ahead);
      PrefetchBlock<true, kSize>(tensor.master_weight(), ahead);
      PrefetchState<kSize, V>(tensor.average(), ahead);
    }
    if constexpr (kMayBeInPlace) {
      if (in_place) {
        UpdateInPlace(rule, range, start, n);
        continue;
      }
    }
    if (n == kSize) {
      UpdateCopy(rule, range, start, kSize, transforms);  // A known size.
    } else {
      UpdateCopy(rule, range, start, n, transforms);
    }
  }
}

template <typename T>
void AddSquares(const CpuRule<ComputeType<T>>& rule,
                const TensorRange<T>& range, double* lanes) {
  using V = ComputeType<T>;
  const bool transforms = Transforms(rule.frame, range.tensor);
  // Not a block of 16-bit elements, which has more elements than lanes.
  for (int64_t start = range.begin; start < range.end; start += kLanes) {
    const int64_t rest = range.end - start;
    const int n = static_cast<int>(rest < kLanes ? rest : kLanes);
    VariableBlock<T> variable(range.tensor, start, n);
    const RuleGradient<V, T> gradient(rule.frame.gradient, range, start, n,
                                      variable.values(), transforms);
    const V* const values = gradient.values();
    ForElements<kLanes>(n, [=](int i) { lanes[i] += Square(values[i]); });
  }
}

template <typename T>
void UpdateRows(const CpuRule<ComputeType<T>>& rule,
                const TensorRange<T>& range) {
  using V = ComputeType<T>;
  if (range.begin == range.end) return;  // Perhaps of rows without elements.
  CpuRule<V> own = rule;                 // Of a row's elements.
  V* state = rule.row_states + range.begin / rule.width;
  for (int64_t begin = range.begin; begin < range.end; ++state) {
    const TensorRange<T> row = {range.tensor, range.gradient_at(begin), begin,
                                begin + rule.width};
    alignas(64) double lanes[kLanes];
    for (double& lane : lanes) lane = 0;
    // The row is read twice, the second time from the first-level cache.
    AddSquares(rule, row, lanes);
    rule.loops->for_row(rule.rule, MeanOfLanes<V>(lanes, rule.width), state,
                        own.rule);
    UpdateBlocks(own, row);
    begin = row.end;
  }
}

template <typename T>
void AccumulateRange(const Frame<ComputeType<T>>& frame,
                     const TensorRange<T>& range) {
  using V = ComputeType<T>;
  const DenseTensor<T>& tensor = range.tensor;
  constexpr int64_t kSize = kBlockSizeOf<T>;
  const int64_t distance = prefetch_distance;
  for (int64_t start = range.begin; start < range.end; start += kSize) {
    const int64_t rest = range.end - start;
    const int n = static_cast<int>(rest < kSize ? rest : kSize);
    const int64_t ahead = start + distance;
    if (distance > 0 && ahead < range.end) {
      PrefetchBlock<false, kSize>(range.gradient, ahead - range.begin);
      PrefetchBlock<true, kSize>(tensor.accumulator(), ahead);
      PrefetchState<kSize, V>(tensor.average(), ahead);
    }
    if (tensor.accumulator() != nullptr) {
      const GradientBlock<V, T> block(range.gradient_at(start), n);
      AccumulateBlock<V>(frame.gradient, n, block.values(),
                         tensor.accumulator() + start);
    }
    if (tensor.average().data != nullptr) {
      RandomBlock random(tensor.first + start, n);
      FollowVariable(frame, tensor, start, n, &random);
    }
  }
}

template <typename T>
void UpdateRange(const CpuRule<ComputeType<T>>& rule,
                 const TensorRange<T>& range) {
  if (!rule.frame.update) {
    AccumulateRange(rule.frame, range);
  } else if (rule.row_states != nullptr) {
    UpdateRows(rule, range);
  } else {
    UpdateBlocks(rule, range);
  }
}

template <typename T>
void CoastRange(const CpuRule<ComputeType<T>>& rule,
                const Coasting<ComputeType<T>>& coasting,
                const DenseTensor<T>& tensor, int64_t begin, int64_t end) {
  using V = ComputeType<T>;
  constexpr int64_t kSize = kBlockSizeOf<T>;
  for (int64_t start = begin; start < end; start += kSize) {
    const int n = static_cast<int>(end - start < kSize ? end - start : kSize);
    RandomBlock random(tensor.first + start, n);
    ModifyBlock(rule.frame, tensor, start, n, &random,
                [&](V* variable, V* const* slots) {
                  rule.loops->coast(coasting, n, variable, slots);
                });
  }
}

}  // namespace
}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
