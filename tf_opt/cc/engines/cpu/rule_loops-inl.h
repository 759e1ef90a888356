// The loops of one rule over a block of arrays in its arithmetic type, for one
// instruction set. The same rules hold as in range_loops-inl.h.
#include <cstddef>
#include <utility>

#include "tf_opt/cc/engines/cpu/elements-inl.h"
#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

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

// The rule is copied, so that the compiler knows that no store changes it.
template <typename Rule, typename V, typename... Slots>
inline __attribute__((always_inline)) void Update(
    const Rule& its_rule, V keep, int n, V* variable, const V* gradient,
    [[maybe_unused]] StateType state, Slots*... slots) {
  const auto update = [=, rule = its_rule](const auto&... hold) {
    const auto one = [=](int i, V p, auto... values) {
      rule(p, gradient[i], values..., hold...);
      variable[i] = CanonicalNan(p);
      ((slots[i] = CanonicalNan(values)), ...);
    };
    ForElements(n, [=](int i) { one(i, keep * variable[i], slots[i]...); });
  };
  if constexpr (Rule::kRoundsGradientLikeSlot) {
    WithRounding<V>(state, update);
  } else {
    update();
  }
}

// The functions of a RuleLoops.
template <typename Rule,
          typename Indices = std::make_index_sequence<Rule::kSlots>>
struct LoopsOfRule;
template <typename Rule, std::size_t... kIndices>
struct LoopsOfRule<Rule, std::index_sequence<kIndices...>> {
  using V = typename Rule::Value;

  static void UpdateBlock(const void* rule, V keep, int n, V* variable,
                          const V* gradient, V* const* slots, StateType state) {
    Update(*static_cast<const Rule*>(rule), keep, n, variable, gradient, state,
           slots[kIndices]...);
  }

  static void CoastBlock(const Coasting<V>& its_coasting, int n, V* variable,
                         V* const* slots) {
    Coast(its_coasting, n, variable, slots[kIndices]...);
  }

  static void ForRow(const void* rule, V mean_square, V* state, void* own) {
    const Rule made =
        static_cast<const Rule*>(rule)->ForRow(mean_square, state);
    __builtin_memcpy(own, &made, sizeof(made));
  }

  static constexpr RuleLoops<V> Make() {
    RuleLoops<V> loops = {UpdateBlock, nullptr, nullptr, Rule::kSlots};
    if constexpr (Rule::Description::kCoasts) loops.coast = CoastBlock;
    if constexpr (Rule::kRowWise) loops.for_row = ForRow;
    return loops;
  }

  static constexpr RuleLoops<V> kLoops = Make();

 private:
  template <typename... Slots>
  static inline __attribute__((always_inline)) void Coast(
      const Coasting<V>& its_coasting, int n, V* p, Slots*... slots) {
    static_assert(Rule::kSlots <= kMostCoastingSlots, "no room for the slots");
    const auto coast = [=, coasting = its_coasting](int i) {
      const V direction = Rule::Direction(coasting.epsilon, slots[i]...);
      p[i] = CanonicalNan(coasting.keep * p[i] - coasting.moved * direction);
      ((slots[i] = CanonicalNan(coasting.decays[kIndices] * slots[i])), ...);
    };
    ForElements(n, coast);
  }
};

}  // namespace

template <typename Rule>
const RuleLoops<typename Rule::Value>& LoopsOf() {
  return LoopsOfRule<Rule>::kLoops;
}

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
