// The dense engine for GPUs without the parts that need CUDA's compiler: the
// work of one thread. The kernel around it is in cuda-inl.cuh; a host can test
// this file.
//
// The engine knows no formula and no framework. gpu_rules.h makes the rules in
// device memory.
#ifndef TF_OPT_CC_ENGINES_GPU_DENSE_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_DENSE_GPU_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/gpu/gpu_state.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/random_bits.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Updates of elements with a rule and its frame, for a thread of a GPU.
// `Convert` widens and narrows elements of 16 bits.
template <typename Convert, typename T, typename Rule>
class FramedElements {
 public:
  using V = ComputeType<T>;
  using Tensor = DenseTensor<T>;
  using State = GpuState<Convert, V>;

  // Updates kPack neighbours in every array.
  template <int kPack>
  TF_OPT_RULE_INLINE static void UpdatePack(const FramedRule<Rule>& rule,
                                            const Tensor& tensor, int64_t at) {
    UpdatePack<kPack>(rule, tensor, at,
                      std::make_index_sequence<Rule::kSlots>());
  }

  // Updates one element.
  TF_OPT_RULE_INLINE static void UpdateAt(const FramedRule<Rule>& rule,
                                          const Tensor& tensor, int64_t at) {
    UpdatePack<1>(rule, tensor, at);
  }

  // Accumulates only.
  TF_OPT_RULE_INLINE static void AccumulateAt(const FramedRule<Rule>& rule,
                                              const Tensor& tensor,
                                              int64_t at) {
    if (V* const accumulators = tensor.accumulator()) {
      const V gradient = Convert::Widen(tensor.gradient()[at]);
      accumulators[at] =
          CanonicalNan(rule.gradient.Accumulate(accumulators[at], gradient));
    }
    if (tensor.average().data == nullptr) return;
    const int64_t element = tensor.first + at;
    T* const variable = tensor.variable() + at;
    V* const master_weights = tensor.master_weight();
    // Restores a master weight whose variable was set from outside.
    V master_weight = Value(tensor, *variable,
                            master_weights == nullptr ? 0 : master_weights[at]);
    V average[1];
    State::Load(tensor.average(), at, average);
    Follow(rule, tensor, element, variable, &master_weight, average);
    if (master_weights != nullptr) master_weights[at] = master_weight;
    State::Store(tensor.average(), at, average, rule.RoundingOf(kAverage),
                 element);
  }

 private:
  // Slots have constant indices: an array indexed by a variable would be in
  // memory instead of registers.
  template <int kPack, std::size_t... kIndices>
  TF_OPT_RULE_INLINE static void UpdatePack(const FramedRule<Rule>& rule,
                                            const Tensor& tensor, int64_t at,
                                            std::index_sequence<kIndices...>) {
    const int64_t element = tensor.first + at;
    GpuPack<T, kPack> variable;
    GpuPack<T, kPack> gradient;
    GpuPack<V, kPack> accumulator = {};
    GpuPack<V, kPack> master_weight = {};
    V slots[Rule::kSlots > 0 ? Rule::kSlots : 1][kPack];
    V average[kPack] = {};
    variable.Load(tensor.variable() + at);
    gradient.Load(tensor.gradient() + at);
    (State::Load(tensor.slot(kIndices), at, slots[kIndices]), ...);
    if (tensor.accumulator() != nullptr) {
      accumulator.Load(tensor.accumulator() + at);
    }
    if (tensor.master_weight() != nullptr) {
      master_weight.Load(tensor.master_weight() + at);
    }
    if (tensor.average().data != nullptr) {
      State::Load(tensor.average(), at, average);
    }
    TF_OPT_UNROLL
    for (int j = 0; j < kPack; ++j) {
      Update(rule, tensor, element + j, Convert::Widen(gradient.elements[j]),
             &variable.elements[j], &master_weight.elements[j],
             &accumulator.elements[j], &average[j], &slots[kIndices][j]...);
    }
    variable.Store(tensor.variable() + at);
    (State::Store(tensor.slot(kIndices), at, slots[kIndices],
                  rule.RoundingOf(kFrameOperandCount + kIndices), element),
     ...);
    if (tensor.accumulator() != nullptr) {
      accumulator.Store(tensor.accumulator() + at);
    }
    if (tensor.master_weight() != nullptr) {
      master_weight.Store(tensor.master_weight() + at);
    }
    if (tensor.average().data != nullptr) {
      State::Store(tensor.average(), at, average, rule.RoundingOf(kAverage),
                   element);
    }
  }

  // Updates the element of `tensor` with the number `element`. The tensor tells
  // which of master weight, accumulator and average are present: pointers that
  // may be null would keep their values in memory instead of registers.
  template <typename... Slot>
  TF_OPT_RULE_INLINE static void Update(const FramedRule<Rule>& rule,
                                        const Tensor& tensor, int64_t element,
                                        V gradient, T* variable,
                                        V* master_weight, V* accumulator,
                                        V* average, Slot*... slots) {
    V p = Value(tensor, *variable, *master_weight);
    if (tensor.accumulator() == nullptr) {
      gradient = rule.gradient(gradient, p);
    } else {
      gradient = rule.gradient(gradient, *accumulator, p);
      *accumulator = 0;
    }
    p = rule.keep * p;
    if constexpr (Rule::kRoundsGradientLikeSlot) {
      const StateType type = tensor.slot(Rule::kSlots - 1).type;
      rule.rule(p, gradient, *slots...,
                [type](V value) { return State::Held(type, value); });
    } else {
      rule.rule(p, gradient, *slots...);
    }
    Assign(rule, tensor, element, CanonicalNan(p), variable, master_weight);
    ((*slots = CanonicalNan(*slots)), ...);
    if (tensor.average().data != nullptr) {
      Follow(rule, tensor, element, variable, master_weight, average);
    }
  }

  // Value to update: the master weight, or the variable if that was set from
  // outside or has no master weight.
  TF_OPT_RULE_INLINE static V Value(const Tensor& tensor, T variable,
                                    V master_weight) {
    const V widened = Convert::Widen(variable);
    if constexpr (kHas16Bits<T>) {
      if (tensor.master_weight() != nullptr) {
        const auto same =
            HaveSameValue(Convert::Narrow(master_weight, T()), variable);
        return CanonicalNan(Select(same, master_weight, widened));
      }
    }
    return widened;
  }

  // Master weights are always rounded to nearest, because a variable is
  // compared with its rounded master weight.
  TF_OPT_RULE_INLINE static void Assign(const FramedRule<Rule>& rule,
                                        const Tensor& tensor, int64_t element,
                                        V value, T* variable,
                                        V* master_weight) {
    *master_weight = value;
    const RoundingBits bits = rule.RoundingOf(kVariable);
    *variable = bits.at_random && tensor.master_weight() == nullptr
                    ? RoundAtRandom(value, RandomBitsOf(bits.key, element), T())
                    : Convert::Narrow(value, T());
  }

  // Moves the average towards the master weight or the stored variable.
  TF_OPT_RULE_INLINE static void Follow(const FramedRule<Rule>& rule,
                                        const Tensor& tensor, int64_t element,
                                        T* variable, V* master_weight,
                                        V* average) {
    const V value = tensor.master_weight() == nullptr
                        ? Convert::Widen(*variable)
                        : *master_weight;
    *average = rule.average(*average, value);
    if (rule.average.overwrite) {
      Assign(rule, tensor, element, *average, variable, master_weight);
    }
  }
};

// Bytes of a slot that a thread loads and stores at a time, the most that is
// possible, and as many elements of variable and gradient. (For 16-bit
// variables that is half as many bytes. With as many bytes, a thread's slots
// would be two vectors, and every access of a warp would touch every other half
// of a sector: twice the accesses for the same bytes.)
constexpr int kGpuVectorBytes = 16;

// One thread of one block. `Convert` widens and narrows 16-bit elements.
template <typename Convert, typename T, typename Rule>
class GpuThread {
 public:
  using V = ComputeType<T>;
  static constexpr int kPack = kGpuVectorBytes / sizeof(V);

  TF_OPT_RULE_INLINE static void Run(const GpuBatch<DenseTensor<T>>& batch,
                                     const GpuRules<Rule>& rules, int32_t block,
                                     int thread, int threads) {
    if (!rules.writes()) return;
    const Tile tile = batch.tile(block);
    const int64_t size = tile.size;
    const FramedRule<Rule> rule = rules[batch.first + tile.tensor];
    const DenseTensor<T> part = batch.tensors[tile.tensor]
                                    .AtLayer(kStackedOf<Rule>, rules.layer())
                                    .Part(tile.begin, size);
    if (!rules.updates()) {
      // One element at a time: neighbouring threads take neighbours.
      for (int64_t k = thread; k < size; k += threads) {
        Elements::AccumulateAt(rule, part, k);
      }
      return;
    }
    bool aligned = GpuPack<T, kPack>::IsAligned(part.variable()) &&
                   GpuPack<T, kPack>::IsAligned(part.gradient()) &&
                   GpuPack<V, kPack>::IsAligned(part.accumulator()) &&
                   GpuPack<V, kPack>::IsAligned(part.master_weight()) &&
                   State::template IsAligned<kPack>(part.average());
    TF_OPT_UNROLL
    for (int k = 0; k < Rule::kSlots; ++k) {
      aligned = aligned && State::template IsAligned<kPack>(part.slot(k));
    }
    int64_t done = 0;
    if (aligned) {
      // Neighbouring threads take neighbouring vectors.
      done = size / kPack * kPack;
      for (int64_t k = thread * kPack; k < done; k += threads * kPack) {
        Elements::template UpdatePack<kPack>(rule, part, k);
      }
    }
    // The last few elements, or all if vectors would not be aligned.
    for (int64_t k = done + thread; k < size; k += threads) {
      Elements::UpdateAt(rule, part, k);
    }
  }

 private:
  using Elements = FramedElements<Convert, T, Rule>;
  using State = GpuState<Convert, V>;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_DENSE_GPU_H_
