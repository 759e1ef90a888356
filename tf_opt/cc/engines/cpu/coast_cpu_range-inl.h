// The loop over elements of rows that waited, for one instruction set. Include
// it after dense_cpu_range-inl.h, whose rules hold here, too.
#if !defined(TF_OPT_CPU_TARGET)
#error "TF_OPT_CPU_TARGET must name the target's namespace"
#endif

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// Not inlined: it is the same for all types of variables with the arithmetic V.
template <typename Rule, typename V, std::size_t... kIndices,
          typename... Values>
__attribute__((noinline)) void CoastElements(const Coasting<V>& its_coasting,
                                             int n, V* p,
                                             std::index_sequence<kIndices...>,
                                             Values*... slots) {
  const auto coast = [=, coasting = its_coasting](int i) {
    const V direction = Rule::Direction(coasting.epsilon, slots[i]...);
    p[i] = CanonicalNan(coasting.keep * p[i] - coasting.moved * direction);
    ((slots[i] = CanonicalNan(coasting.decays[kIndices] * slots[i])), ...);
  };
  ForElements(n, coast);
}

template <typename T, typename Rule, std::size_t... kIndices>
inline __attribute__((always_inline)) void CoastBlock(
    const FramedRule<Rule>& rule, const Coasting<ComputeType<T>>& coasting,
    const TensorOf<T, Rule>& tensor, int64_t start, int n,
    std::index_sequence<kIndices...> indices) {
  using V = ComputeType<T>;
  static_assert(Rule::kSlots <= kMostCoastingSlots, "no room for the slots");
  RandomBlock random(tensor.first + start, n);
  VariableBlock<V, T> variable(tensor, start, n);
  const auto coast = [&](auto&&... slots) __attribute__((always_inline)) {
    CoastElements<Rule>(coasting, n, variable.values(), indices,
                        slots.values()...);
    (slots.Store(rule.template KeyOf<kFrameOperandCount + kIndices>(), &random),
     ...);
  };
  coast(StateBlock<V>(tensor.template slot<kIndices>(), start, n)...);
  variable.Store(rule.template KeyOf<kVariable>(), &random);
}

}  // namespace

template <typename T, typename Rule>
void CoastRange(const FramedRule<Rule>& rule,
                const Coasting<ComputeType<T>>& coasting,
                const TensorOf<T, Rule>& tensor, int64_t begin, int64_t end) {
  if constexpr (Rule::Description::kCoasts) {
    constexpr int64_t kSize = kBlockSizeOf<T>;
    for (int64_t start = begin; start < end; start += kSize) {
      const int n = static_cast<int>(end - start < kSize ? end - start : kSize);
      CoastBlock<T>(rule, coasting, tensor, start, n,
                    std::make_index_sequence<Rule::kSlots>());
    }
  }
}

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
