// Update of one element with a rule and its frame, for a thread of a GPU.
#ifndef TF_OPT_CC_ENGINES_GPU_FRAMED_ELEMENT_H_
#define TF_OPT_CC_ENGINES_GPU_FRAMED_ELEMENT_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/stochastic_rounding.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/random_bits.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// `State` reads and writes state; its `Convert` widens and narrows elements of
// 16 bits (gpu_state.h).
template <typename State, typename T, typename Rule>
class FramedElement {
 public:
  using V = ComputeType<T>;
  using Tensor = DenseTensor<T, Rule::kSlots>;
  using Convert = typename State::Convert;

  // Updates the element of `tensor` with the number `element`. The tensor tells
  // which of master weight, accumulator and average are present: pointers that
  // may be null would keep their values in memory instead of registers.
  template <typename... Slot>
  TF_OPT_RULE_INLINE static void Update(const FramedRule<Rule>& rule,
                                        const Tensor& tensor, int64_t element,
                                        V gradient, T* variable,
                                        V* master_weight, V* accumulator,
                                        V* average, Slot*... slots) {
    if (tensor.accumulator() == nullptr) {
      gradient = rule.gradient(gradient);
    } else {
      gradient = rule.gradient(gradient, *accumulator);
      *accumulator = 0;
    }
    V p = Value(tensor, *variable, *master_weight);
    if constexpr (Rule::kRoundsGradientLikeSlot) {
      const StateType type = tensor.types[Tensor::kOperands - 1];
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

  // The same in place.
  TF_OPT_RULE_INLINE static void UpdateAt(const FramedRule<Rule>& rule,
                                          const Tensor& tensor, V gradient,
                                          int64_t at) {
    UpdateAt(rule, tensor, gradient, at,
             std::make_index_sequence<Rule::kSlots>());
  }

  // Accumulates only.
  TF_OPT_RULE_INLINE static void AccumulateAt(const FramedRule<Rule>& rule,
                                              const Tensor& tensor, V gradient,
                                              int64_t at) {
    if (tensor.accumulator() != nullptr) {
      V* const accumulator = tensor.accumulator() + at;
      *accumulator =
          CanonicalNan(rule.gradient.Accumulate(*accumulator, gradient));
    }
    if (tensor.average().data == nullptr) return;
    const int64_t element = tensor.first + at;
    T* const variable = tensor.variable() + at;
    V master_weight = MasterWeightAt(tensor, at);
    // Restores a master weight whose variable was set from outside.
    master_weight = Value(tensor, *variable, master_weight);
    V average = State::Read(tensor.average(), at);
    Follow(rule, tensor, element, variable, &master_weight, &average);
    StoreMasterWeightAt(tensor, at, master_weight);
    State::Write(tensor.average(), at, average, rule.template KeyOf<kAverage>(),
                 element);
  }

 private:
  template <std::size_t... kIndices>
  TF_OPT_RULE_INLINE static void UpdateAt(const FramedRule<Rule>& rule,
                                          const Tensor& tensor, V gradient,
                                          int64_t at,
                                          std::index_sequence<kIndices...>) {
    const int64_t element = tensor.first + at;
    V slots[] = {State::Read(tensor.template slot<kIndices>(), at)...};
    V accumulator = 0;
    if (tensor.accumulator() != nullptr) accumulator = tensor.accumulator()[at];
    V average = 0;
    if (tensor.average().data != nullptr) {
      average = State::Read(tensor.average(), at);
    }
    V master_weight = MasterWeightAt(tensor, at);
    Update(rule, tensor, element, gradient, tensor.variable() + at,
           &master_weight, &accumulator, &average, &slots[kIndices]...);
    (State::Write(tensor.template slot<kIndices>(), at, slots[kIndices],
                  rule.template KeyOf<kFrameOperandCount + kIndices>(),
                  element),
     ...);
    if (tensor.accumulator() != nullptr) tensor.accumulator()[at] = accumulator;
    if (tensor.average().data != nullptr) {
      State::Write(tensor.average(), at, average,
                   rule.template KeyOf<kAverage>(), element);
    }
    StoreMasterWeightAt(tensor, at, master_weight);
  }

  TF_OPT_RULE_INLINE static V MasterWeightAt(const Tensor& tensor, int64_t at) {
    return tensor.master_weight() == nullptr ? 0 : tensor.master_weight()[at];
  }
  TF_OPT_RULE_INLINE static void StoreMasterWeightAt(const Tensor& tensor,
                                                     int64_t at, V value) {
    if (tensor.master_weight() != nullptr) tensor.master_weight()[at] = value;
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
    const auto* const key = rule.template KeyOf<kVariable>();
    *variable = key == nullptr || tensor.master_weight() != nullptr
                    ? Convert::Narrow(value, T())
                    : RoundAtRandom(value, RandomBitsOf(*key, element), T());
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

#endif  // TF_OPT_CC_ENGINES_GPU_FRAMED_ELEMENT_H_
