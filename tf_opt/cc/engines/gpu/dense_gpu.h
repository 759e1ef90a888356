// The dense engine for GPUs: the work of one thread, which a host can test.
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
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/random_bits.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Updates of elements with a rule and its frame, for a thread of a GPU.
template <typename T, typename Rule>
class FramedElements {
 public:
  using V = ComputeType<T>;
  using Tensor = DenseTensor<T>;
  using State = GpuState<V>;

  // Updates kPack neighbours in every array, with their gradient.
  template <int kPack>
  TF_OPT_RULE_INLINE static void UpdatePack(const FramedRule<Rule>& rule,
                                            const Tensor& tensor, int64_t at,
                                            const GpuPack<T, kPack>& gradient) {
    ModifyPack<kPack>(rule, tensor, at, Slots(), [&](int j, auto*... values) {
      Update(rule, tensor, tensor.first + at + j,
             GpuConvert::Widen(gradient.elements[j]), values...);
    });
  }

  // Returns an element's gradient as the rule receives it.
  TF_OPT_RULE_INLINE static V GradientAt(const FramedRule<Rule>& rule,
                                         const Tensor& tensor, int64_t at,
                                         V gradient) {
    const V* const master_weights = tensor.master_weight();
    const V p = Value(tensor, tensor.variable()[at],
                      master_weights == nullptr ? 0 : master_weights[at]);
    return tensor.accumulator() == nullptr
               ? rule.gradient(gradient, p)
               : rule.gradient(gradient, tensor.accumulator()[at], p);
  }

  // Accumulates only.
  TF_OPT_RULE_INLINE static void AccumulateAt(const FramedRule<Rule>& rule,
                                              const Tensor& tensor, int64_t at,
                                              V gradient) {
    if (V* const accumulators = tensor.accumulator()) {
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

  // Lets kPack neighbours coast. The tensor has only what coasts: neither
  // accumulator nor average; and the rule's frame is that ForCoasting.
  template <int kPack>
  TF_OPT_RULE_INLINE static void CoastPack(const FramedRule<Rule>& rule,
                                           const Coasting<V>& coasting,
                                           const Tensor& tensor, int64_t at) {
    ModifyPack<kPack>(
        rule, tensor, at, Slots(),
        [&](int j, T* variable, V* master_weight, V*, V*, auto*... slots) {
          V p = Value(tensor, *variable, *master_weight);
          p = coasting.keep * p -
              coasting.moved * Rule::Direction(coasting.epsilon, *slots...);
          [[maybe_unused]] int k = 0;
          ((*slots = CanonicalNan(coasting.decays[k++] * *slots)), ...);
          Assign(rule, tensor, tensor.first + at + j, CanonicalNan(p), variable,
                 master_weight);
        });
  }

 private:
  // Their indices are constants: an array indexed by a variable would be in
  // memory instead of registers.
  using Slots = std::make_index_sequence<Rule::kSlots>;

  // Loads kPack neighbours, calls modify(j, values...) for the j-th of them,
  // with addresses of its values in every array, and stores them.
  template <int kPack, typename Modify, std::size_t... kIndices>
  TF_OPT_RULE_INLINE static void ModifyPack(const FramedRule<Rule>& rule,
                                            const Tensor& tensor, int64_t at,
                                            std::index_sequence<kIndices...>,
                                            const Modify& modify) {
    const int64_t element = tensor.first + at;
    GpuPack<T, kPack> variable;
    GpuPack<V, kPack> accumulator = {};
    GpuPack<V, kPack> master_weight = {};
    V slots[Rule::kSlots > 0 ? Rule::kSlots : 1][kPack];
    V average[kPack] = {};
    variable.Load(tensor.variable() + at);
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
      modify(j, &variable.elements[j], &master_weight.elements[j],
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
    const V widened = GpuConvert::Widen(variable);
    if constexpr (kHas16Bits<T>) {
      if (tensor.master_weight() != nullptr) {
        const auto same =
            HaveSameValue(GpuConvert::Narrow(master_weight, T()), variable);
        return Select(same, master_weight, CanonicalNan(widened));
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
                    : GpuConvert::Narrow(value, T());
  }

  // Moves the average towards the master weight or the stored variable.
  TF_OPT_RULE_INLINE static void Follow(const FramedRule<Rule>& rule,
                                        const Tensor& tensor, int64_t element,
                                        T* variable, V* master_weight,
                                        V* average) {
    const V value = tensor.master_weight() == nullptr
                        ? GpuConvert::Widen(*variable)
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
template <typename T>
constexpr int kGpuPackOf = kGpuVectorBytes / sizeof(ComputeType<T>);

// Whether packs of a tensor's operands, from its first element on, can be
// loaded at once.
template <typename T>
TF_OPT_HOST_DEVICE bool HasPacks(const DenseTensor<T>& tensor) {
  bool aligned = true;
  TF_OPT_UNROLL
  for (int k = 0; k < kMostOperands; ++k) {
    // A power of two.
    const uintptr_t size = kGpuPackOf<T> * tensor.ElementSize(k);
    aligned = aligned && (reinterpret_cast<uintptr_t>(tensor.operands[k]) &
                          (size - 1)) == 0;
  }
  return aligned;
}

// Makes the rule of each tensor. A block makes only as many as a warp has
// threads: on GPUs with few units for float64, more would wait for each other.
template <typename Rule>
struct MakeRulesWork {
  int64_t blocks() const { return (count + kWarpThreads - 1) / kWarpThreads; }

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const int64_t i = block * kWarpThreads + thread;
    if (thread >= kWarpThreads || i >= count) return;
    const Refusal refusal = rules.Compute(inputs, i, missed);
    if (refusal.kind != Refusal::kNone) Tell<GpuDevice>(refusal, report);
  }

  typename GpuRules<Rule>::Inputs inputs;
  GpuRules<Rule> rules;
  int64_t count;
  Refusal* report;
  MissedStep* missed;  // May be null.
};

// Applies the rules to a tile of a tensor.
template <typename T, typename Rule>
struct DenseWork {
  static constexpr int kPack = kGpuPackOf<T>;
  using Elements = FramedElements<T, Rule>;

  TF_OPT_RULE_INLINE void Run(int64_t block, int thread) const {
    const GpuStepHeader& header = *rules.header();
    if (header.skips) return;
    const Tile tile = batch.tile(static_cast<int32_t>(block));
    const int64_t size = tile.size;
    const FramedRule<Rule> rule = rules[batch.first + tile.tensor];
    const DenseTensor<T> part = batch.tensors[tile.tensor]
                                    .AtLayer(kStackedOf<Rule>, header.layer)
                                    .Part(tile.begin, size);
    if (!header.updates) {
      // One element at a time: neighbouring threads take neighbours.
      for (int64_t k = thread; k < size; k += kGpuThreads) {
        Elements::AccumulateAt(rule, part, k,
                               GpuConvert::Widen(part.gradient()[k]));
      }
      return;
    }
    int64_t done = 0;
    if (HasPacks(part)) {
      // Neighbouring threads take neighbouring vectors.
      done = size / kPack * kPack;
      for (int64_t k = thread * kPack; k < done; k += kGpuThreads * kPack) {
        Update<kPack>(rule, part, k);
      }
    }
    // The last few elements, or all if vectors would not be aligned.
    for (int64_t k = done + thread; k < size; k += kGpuThreads) {
      Update<1>(rule, part, k);
    }
  }

  template <int kCount>
  TF_OPT_RULE_INLINE static void Update(const FramedRule<Rule>& rule,
                                        const DenseTensor<T>& part, int64_t k) {
    GpuPack<T, kCount> gradient;
    gradient.Load(part.gradient() + k);
    Elements::template UpdatePack<kCount>(rule, part, k, gradient);
  }

  GpuBatch<DenseTensor<T>> batch;
  GpuRules<Rule> rules;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_DENSE_GPU_H_
