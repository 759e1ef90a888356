// A rule as the CPU engine's loops call it: by its arithmetic type V, so that
// they are compiled for each type of variables and not for each rule.
#ifndef TF_OPT_CC_ENGINES_CPU_CPU_RULE_H_
#define TF_OPT_CC_ENGINES_CPU_CPU_RULE_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// What a rule does with a block of arrays, compiled for an instruction set.
template <typename V>
struct RuleLoops {
  // Updates n elements. `state` is the type in which slots are stored that may
  // be shorter than V.
  void (*update)(const void* rule, int n, V* variable, const V* gradient,
                 V* const* slots, StateType state);
  // Lets elements of a row that waited coast. Null if the rule doesn't coast.
  void (*coast)(const Coasting<V>& coasting, int n, V* variable,
                V* const* slots);
  // Of a row-wise rule, else null: adds the squares of its RowGradient to
  // lanes, ...
  void (*add_squares)(const void* rule, int n, const V* variable,
                      const V* gradient, double* lanes);
  // ... and writes the rule of a row's elements to `own`.
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

// Room for any rule.
template <typename V>
struct RuleBytes {
  alignas(V) unsigned char bytes[16 * sizeof(V)];
};

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
    std::memcpy(rule.bytes, &framed.rule, sizeof(Rule));
  }

  bool is_row_wise() const { return loops->for_row != nullptr; }

  Frame<V> frame;
  RuleBytes<V> rule;
  const RuleLoops<V>* loops;
  // Of a row-wise rule: a number for each row of the variable, and the elements
  // of a row. Null in the rule of one row's elements.
  V* row_states = nullptr;
  int64_t width = 1;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_CPU_RULE_H_
