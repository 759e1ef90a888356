// A rule as the CPU engine's loops call it: by its arithmetic type V, so that
// they are compiled for each type of variables and not for each rule.
#ifndef TF_OPT_CC_ENGINES_CPU_CPU_RULE_H_
#define TF_OPT_CC_ENGINES_CPU_CPU_RULE_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// What a rule does with a block of arrays, compiled for an instruction set.
template <typename V>
struct RuleLoops {
  // Updates n elements, of which decay leaves the factor `keep`. `last_slot` is
  // the type in which the last slot is stored; a rule without slots doesn't
  // ask.
  void (*update)(const void* rule, V keep, int n, V* variable,
                 const V* gradient, V* const* slots, StateType last_slot);
  // Lets elements of a row that waited coast. Null if the rule doesn't coast.
  void (*coast)(const Coasting<V>& coasting, int n, V* variable,
                V* const* slots);
  // Writes a row-wise rule's rule of a row's elements to `own`. Null for
  // others.
  void (*for_row)(const void* rule, V mean_square, V* state, void* own);
  int slots;
};

// rule_loops.cc defines these, once per instruction set.
#define TF_OPT_DECLARE_CPU_TARGET(target)           \
  namespace target {                                \
  template <typename Rule>                          \
  const RuleLoops<typename Rule::Value>& LoopsOf(); \
  }
TF_OPT_FOR_CPU_TARGETS(TF_OPT_DECLARE_CPU_TARGET)
#undef TF_OPT_DECLARE_CPU_TARGET

// A rule and its frame, for one variable.
template <typename V>
struct CpuRule {
  template <typename Rule>
  CpuRule(const FramedRule<Rule>& framed, CpuTarget target)
      : CpuRule(framed, TF_OPT_OF_CPU_TARGET(target, LoopsOf<Rule>())) {}

  template <typename Rule>
  CpuRule(const FramedRule<Rule>& framed, const RuleLoops<V>& loops)
      : frame(framed), loops(&loops) {
    static_assert(
        std::is_trivially_copyable<Rule>::value && sizeof(Rule) <= sizeof(rule),
        "no room for the rule");
    std::memcpy(rule, &framed.rule, sizeof(Rule));
  }

  bool is_row_wise() const { return loops->for_row != nullptr; }

  Frame<V> frame;
  // Of a type that the loops know.
  alignas(V) unsigned char rule[16 * sizeof(V)];
  const RuleLoops<V>* loops;
  // Of a row-wise rule: a number for each row of the variable, and the elements
  // of a row. Null in the rule of one row's elements.
  V* row_states = nullptr;
  int64_t width = 1;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_CPU_RULE_H_
