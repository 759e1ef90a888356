// Updates of elements with a rule and its frame, for a thread of a GPU.
#ifndef TF_OPT_CC_ENGINES_GPU_FRAMED_ELEMENTS_H_
#define TF_OPT_CC_ENGINES_GPU_FRAMED_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/gpu/gpu_pack.h"
#include "tf_opt/cc/engines/gpu/gpu_state.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/random_bits.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

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

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_FRAMED_ELEMENTS_H_
