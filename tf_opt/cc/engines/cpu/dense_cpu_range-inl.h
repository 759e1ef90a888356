// The dense CPU engine's inner loop, for one instruction set.
//
// The file that instantiates it (rule_loops.cc) is compiled once per target
// with TF_OPT_CPU_TARGET defined as that target's namespace. Such a translation
// unit must emit no function that another one emits too: the linker keeps one
// copy, perhaps the one this machine cannot run. Hence the namespace, the
// always-inline rules and no standard library calls in here.
//
// The flags matter as much as the code (cpu_targets.bzl): without
// -fno-math-errno and -fno-trapping-math the square root and the maximum are
// not vectorized. -fno-tree-loop-distribute-patterns keeps loops that clear a
// few lines from becoming calls. -ffp-contract=off (tf_opt/copts.bzl) makes
// every target, every vector lane and every loop tail compute the same bits.
#if !defined(TF_OPT_CPU_TARGET)
#error "TF_OPT_CPU_TARGET must name the target's namespace"
#endif

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tf_opt/cc/engines/cpu/blocks-inl.h"
#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

template <bool kWritten, int64_t kSize, typename V>
inline __attribute__((always_inline)) void PrefetchBlock(const V* block) {
  constexpr int kCacheLine = 64;
  const char* bytes = reinterpret_cast<const char*>(block);
  for (std::size_t i = 0; i < kSize * sizeof(V); i += kCacheLine) {
    __builtin_prefetch(bytes + i, kWritten);
  }
}

// Calls use(hold), where hold(x) is x as state of this type holds it, rounded
// to nearest.
template <typename V, typename Use>
inline __attribute__((always_inline)) void WithRounding(StateType type,
                                                        const Use& use) {
  if (type == StateType::kBFloat16) {
    use([](V value) { return AsBFloat16(value); });
  } else if (type == StateType::kFloat && sizeof(V) > sizeof(float)) {
    use([](V value) { return static_cast<V>(static_cast<float>(value)); });
  } else {
    use([](V value) { return value; });
  }
}

// Updates the n elements of a block. Not inlined: it is the same for all types
// of variables with the arithmetic V. The rule is copied here, so that the
// compiler knows that no store changes it; copied by the call, it would be
// written in parts and read as a whole, which stalls a processor. `state` is
// the type in which slots are stored that may be shorter than V.
template <typename V, typename Rule, typename... Slots>
__attribute__((noinline)) void Update(const Rule& its_rule, int n, V* variable,
                                      const V* gradient,
                                      [[maybe_unused]] StateType state,
                                      Slots*... slots) {
  const auto update = [=, rule = its_rule](const auto&... hold) {
    const auto one = [=](int i, V p, auto... values) {
      rule(p, gradient[i], values..., hold...);
      variable[i] = CanonicalNan(p);
      ((slots[i] = CanonicalNan(values)), ...);
    };
    ForElements(n, [=](int i) { one(i, variable[i], slots[i]...); });
  };
  if constexpr (Rule::kRoundsGradientLikeSlot) {
    WithRounding<V>(state, update);
  } else {
    update();
  }
}

// The frame around the rule, in separate loops over a block, which is in the
// first-level cache by then: the rule's own loop is the same with and without
// it. Not inlined into the loop of each rule, to keep the library small.

// Writes the gradient for the rule to `transformed`; `accumulator` may be null.
template <typename V>
__attribute__((noinline)) void TransformBlock(
    const GradientTransform<V> transform, int n, const V* __restrict gradient,
    const V* __restrict accumulator, V* __restrict transformed) {
  if (accumulator == nullptr) {
    for (int i = 0; i < n; ++i) transformed[i] = transform(gradient[i]);
  } else {
    for (int i = 0; i < n; ++i) {
      transformed[i] = transform(gradient[i], accumulator[i]);
    }
  }
}

// The gradient of a block as the rule takes it.
template <typename V, typename T>
class RuleGradient {
 public:
  template <typename Tensor>
  RuleGradient(const GradientTransform<V>& transform, const Tensor& tensor,
               int64_t start, int n, bool transforms)
      : gradient_(tensor.gradient(), start, n), values_(gradient_.values()) {
    if (!transforms) return;
    const V* const accumulator = tensor.accumulator();
    TransformBlock<V>(transform, n, values_,
                      accumulator == nullptr ? nullptr : accumulator + start,
                      transformed_);
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

template <typename V, typename Rule>
__attribute__((noinline)) void SquareBlock(const Rule& its_rule, int n,
                                           const V* variable, const V* gradient,
                                           double* lanes) {
  ForElements<kLanes>(n, [=, rule = its_rule](int i) {
    lanes[i] += Square(rule.RowGradient(gradient[i], variable[i]));
  });
}

// Moves the average towards the master weights or the stored variable.
template <typename T, typename Rule>
inline __attribute__((always_inline)) void FollowVariable(
    const FramedRule<Rule>& rule, const TensorOf<T, Rule>& tensor,
    int64_t start, int n, RandomBlock* random) {
  using V = ComputeType<T>;
  VariableBlock<V, T> variable(tensor, start, n);
  StateBlock<V> averages(tensor.average(), start, n);
  AverageBlock<V>(rule.average, n, variable.values(), averages.values());
  averages.Store(rule.template KeyOf<kAverage>(), random);
  if (rule.average.overwrite) {
    variable.Store(rule.template KeyOf<kVariable>(), random);
  }
}

// `own` is the rule of these elements.
template <typename T, typename Rule, std::size_t... kIndices>
inline __attribute__((always_inline)) void ApplyBlock(
    const FramedRule<Rule>& rule, const Rule& own,
    const TensorOf<T, Rule>& tensor, int64_t start, int n, bool transforms,
    std::index_sequence<kIndices...>) {
  using V = ComputeType<T>;
  RandomBlock random(tensor.first + start, n);
  {
    VariableBlock<V, T> variable(tensor, start, n);
    const RuleGradient<V, T> gradient(rule.gradient, tensor, start, n,
                                      transforms);
    if (tensor.accumulator() != nullptr) {
      ClearBlock(n, tensor.accumulator() + start);
    }
    const auto update = [&](auto&&... slots) __attribute__((always_inline)) {
      Update<V>(own, n, variable.values(), gradient.values(),
                tensor.slot_type(), slots.values()...);
      (slots.Store(rule.template KeyOf<kFrameOperandCount + kIndices>(),
                   &random),
       ...);
    };
    update(StateBlock<V>(tensor.template slot<kIndices>(), start, n)...);
    variable.Store(rule.template KeyOf<kVariable>(), &random);
  }
  if (tensor.average().data != nullptr) {
    FollowVariable(rule, tensor, start, n, &random);
  }
}

// Prefetches a block of a tensor, which may be absent.
template <bool kWritten, int64_t kSize, typename V>
inline __attribute__((always_inline)) void PrefetchOptional(const V* tensor,
                                                            int64_t start) {
  if (tensor != nullptr) PrefetchBlock<kWritten, kSize>(tensor + start);
}

template <int64_t kSize, typename V>
inline __attribute__((always_inline)) void PrefetchState(
    const StateArray<V>& array, int64_t start) {
  if (array.type == StateType::kArithmetic) {
    PrefetchOptional<true, kSize>(static_cast<V*>(array.data), start);
  } else if (array.type == StateType::kBFloat16) {
    PrefetchOptional<true, kSize>(static_cast<BFloat16*>(array.data), start);
  } else {
    PrefetchOptional<true, kSize>(static_cast<float*>(array.data), start);
  }
}

// Whether gradients change before the rule takes them.
template <typename Rule, typename Tensor>
inline __attribute__((always_inline)) bool Transforms(
    const FramedRule<Rule>& rule, const Tensor& tensor) {
  return tensor.accumulator() != nullptr || !rule.gradient.IsIdentity();
}

template <typename T, typename Rule, std::size_t... kIndices>
inline __attribute__((always_inline)) void ApplyBlocks(
    const FramedRule<Rule>& rule, const Rule& own,
    const TensorOf<T, Rule>& tensor, int64_t begin, int64_t end,
    std::index_sequence<kIndices...> indices) {
  const bool transforms = Transforms(rule, tensor);
  int64_t start = begin;
  // Full blocks separately, so that the compiler knows their size.
  constexpr int64_t kSize = kBlockSizeOf<T>;
  const int64_t distance = prefetch_distance;
  for (; start + kSize <= end; start += kSize) {
    const int64_t ahead = start + distance;
    if (distance > 0 && ahead < tensor.size) {
      PrefetchBlock<true, kSize>(tensor.variable() + ahead);
      PrefetchOptional<false, kSize>(tensor.gradient(), ahead);
      (PrefetchState<kSize>(tensor.template slot<kIndices>(), ahead), ...);
      PrefetchOptional<true, kSize>(tensor.accumulator(), ahead);
      PrefetchOptional<true, kSize>(tensor.master_weight(), ahead);
      PrefetchState<kSize>(tensor.average(), ahead);
    }
    ApplyBlock(rule, own, tensor, start, kSize, transforms, indices);
  }
  if (start < end) {
    ApplyBlock(rule, own, tensor, start, static_cast<int>(end - start),
               transforms, indices);
  }
}

template <typename T, typename Rule>
inline __attribute__((always_inline)) void AddSquaresOf(
    const FramedRule<Rule>& rule, const TensorOf<T, Rule>& tensor,
    int64_t begin, int64_t end, double* lanes) {
  using V = ComputeType<T>;
  const bool transforms = Transforms(rule, tensor);
  // Not a block of 16-bit elements, which has more elements than lanes.
  for (int64_t start = begin; start < end; start += kLanes) {
    const int n = static_cast<int>(end - start < kLanes ? end - start : kLanes);
    VariableBlock<V, T> variable(tensor, start, n);
    const RuleGradient<V, T> gradient(rule.gradient, tensor, start, n,
                                      transforms);
    SquareBlock<V>(rule.rule, n, variable.values(), gradient.values(), lanes);
  }
}

template <typename T, typename Rule, std::size_t... kIndices>
inline __attribute__((always_inline)) void ApplyRows(
    const FramedRule<Rule>& rule, const TensorOf<T, Rule>& tensor,
    int64_t begin, int64_t end, std::index_sequence<kIndices...> indices) {
  if (begin == end) return;  // Perhaps of rows without elements.
  auto* state = tensor.Part(begin, 0).row_state();
  for (; begin < end; begin += tensor.width, ++state) {
    const int64_t row_end = begin + tensor.width;
    alignas(64) double lanes[kLanes];
    for (double& lane : lanes) lane = 0;
    // The row is read twice, the second time from the first-level cache.
    AddSquaresOf<T>(rule, tensor, begin, row_end, lanes);
    const Rule own = rule.rule.ForRow(
        MeanOfLanes<typename Rule::Value>(lanes, tensor.width), state);
    ApplyBlocks<T>(rule, own, tensor, begin, row_end, indices);
  }
}

}  // namespace

template <typename T, typename Rule>
void ApplyRange(const FramedRule<Rule>& rule, const TensorOf<T, Rule>& tensor,
                int64_t begin, int64_t end) {
  const std::make_index_sequence<Rule::kSlots> indices;
  if constexpr (Rule::kRowWise) {
    if (tensor.row_states != nullptr) {
      ApplyRows<T>(rule, tensor, begin, end, indices);
      return;
    }
  }
  ApplyBlocks<T>(rule, rule.rule, tensor, begin, end, indices);
}

template <typename T, typename Rule>
void AddSquares(const FramedRule<Rule>& rule, const TensorOf<T, Rule>& tensor,
                int64_t begin, int64_t end, double* lanes) {
  if constexpr (Rule::kRowWise) {
    AddSquaresOf<T>(rule, tensor, begin, end, lanes);
  }
}

template <typename T, typename Rule>
void AccumulateRange(const FramedRule<Rule>& rule,
                     const TensorOf<T, Rule>& tensor, int64_t begin,
                     int64_t end) {
  using V = ComputeType<T>;
  constexpr int64_t kSize = kBlockSizeOf<T>;
  const int64_t distance = prefetch_distance;
  for (int64_t start = begin; start < end; start += kSize) {
    const int n = static_cast<int>(end - start < kSize ? end - start : kSize);
    const int64_t ahead = start + distance;
    if (distance > 0 && ahead < tensor.size) {
      PrefetchOptional<false, kSize>(tensor.gradient(), ahead);
      PrefetchOptional<true, kSize>(tensor.accumulator(), ahead);
      PrefetchState<kSize>(tensor.average(), ahead);
    }
    if (tensor.accumulator() != nullptr) {
      const GradientBlock<V, T> gradient(tensor.gradient(), start, n);
      AccumulateBlock<V>(rule.gradient, n, gradient.values(),
                         tensor.accumulator() + start);
    }
    if (tensor.average().data != nullptr) {
      RandomBlock random(tensor.first + start, n);
      FollowVariable(rule, tensor, start, n, &random);
    }
  }
}

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
