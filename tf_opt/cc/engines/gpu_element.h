// What a thread of a GPU does with one element, whose gradient it has at hand:
// one formula for all kernels, whether they read gradients or sum them.
#ifndef TF_OPT_CC_ENGINES_GPU_ELEMENT_H_
#define TF_OPT_CC_ENGINES_GPU_ELEMENT_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// `Convert` widens and narrows 16-bit elements.
template <typename Convert, typename T, typename Rule>
class GpuElement {
 public:
  using V = ComputeType<T>;
  using Tensor = DenseTensor<T, Rule::kSlots>;

  // Updates an element of `tensor`, which says whether there is an accumulator
  // and an average to look at: pointers that may be null, or not, would keep
  // what they point to in memory, not in registers.
  template <typename... Slot>
  TF_OPT_RULE_INLINE static void Update(const FramedRule<Rule>& rule,
                                        const Tensor& tensor, V gradient,
                                        T* variable, V* accumulator, V* average,
                                        Slot*... slots) {
    if (tensor.accumulator() == nullptr) {
      gradient = rule.gradient(gradient);
    } else {
      gradient = rule.gradient(gradient, *accumulator);
      *accumulator = 0;
    }
    V p = Convert::Widen(*variable);
    rule.rule(p, gradient, *slots...);
    *variable = Convert::Narrow(p, T());
    ((*slots = CanonicalNan(*slots)), ...);
    if (tensor.average() != nullptr) Follow(rule.average, variable, average);
  }

  // The same where it lies.
  TF_OPT_RULE_INLINE static void UpdateAt(const FramedRule<Rule>& rule,
                                          const Tensor& tensor, V gradient,
                                          int64_t at) {
    UpdateAt(rule, tensor, gradient, at,
             std::make_index_sequence<Rule::kSlots>());
  }

  // What a step does that is no update.
  TF_OPT_RULE_INLINE static void AccumulateAt(const FramedRule<Rule>& rule,
                                              const Tensor& tensor, V gradient,
                                              int64_t at) {
    if (tensor.accumulator() != nullptr) {
      V* const accumulator = tensor.accumulator() + at;
      *accumulator =
          CanonicalNan(rule.gradient.Accumulate(*accumulator, gradient));
    }
    if (tensor.average() != nullptr) {
      Follow(rule.average, tensor.variable() + at, tensor.average() + at);
    }
  }

 private:
  template <std::size_t... kIndices>
  TF_OPT_RULE_INLINE static void UpdateAt(const FramedRule<Rule>& rule,
                                          const Tensor& tensor, V gradient,
                                          int64_t at,
                                          std::index_sequence<kIndices...>) {
    Update(rule, tensor, gradient, tensor.variable() + at,
           Shifted(tensor.accumulator(), at), Shifted(tensor.average(), at),
           tensor.template slot<kIndices>() + at...);
  }

  TF_OPT_RULE_INLINE static V* Shifted(V* array, int64_t by) {
    return array == nullptr ? nullptr : array + by;
  }

  // Lets the average follow the variable as it is stored.
  TF_OPT_RULE_INLINE static void Follow(const MovingAverage<V>& rule,
                                        T* variable, V* average) {
    *average = rule(*average, Convert::Widen(*variable));
    if (rule.overwrite) *variable = Convert::Narrow(*average, T());
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_ELEMENT_H_
