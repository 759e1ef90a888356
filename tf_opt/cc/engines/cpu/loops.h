// The CPU engine's loops: what is compiled for each instruction set, and the
// choice among the sets at run time.
//
// A range loop goes through a part of a variable, a block at a time. It knows
// the variable's type T and no rule, which it calls through a CpuRule by the
// rule's arithmetic type V. A rule loop goes through a block. So range loops
// are compiled for each T, and rule loops for each rule, but none for both.
#ifndef TF_OPT_CC_ENGINES_CPU_LOOPS_H_
#define TF_OPT_CC_ENGINES_CPU_LOOPS_H_

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

enum class CpuTarget { kBaseline, kAvx2, kAvx512 };

const char* CpuTargetName(CpuTarget target);

// Targets that this processor and its operating system can run, best last.
std::vector<CpuTarget> SupportedCpuTargets();

// Returns the best supported target, decided once.
// TF_OPT_CPU_TARGET=baseline|avx2|avx512 limits it on x86-64; an unknown or
// unsupported name is ignored.
CpuTarget ChosenCpuTarget();

// How many elements ahead of a block the dense loops prefetch. 0: not at all,
// because this processor needs no prefetching. Tests assign to it.
extern int64_t prefetch_distance;

// What is compiled for a target is in the namespace of the target's name.
//
// TF_OPT_FOR_CPU_TARGETS(declare) is declare(name) for each of them, and
// TF_OPT_OF_CPU_TARGET(target, F) the function F of the target.
#if defined(__x86_64__)
#define TF_OPT_FOR_CPU_TARGETS(declare) \
  declare(baseline) declare(avx2) declare(avx512)
#define TF_OPT_OF_CPU_TARGET(target, ...)               \
  ((target) == CpuTarget::kAvx512 ? avx512::__VA_ARGS__ \
   : (target) == CpuTarget::kAvx2 ? avx2::__VA_ARGS__   \
                                  : baseline::__VA_ARGS__)
#else
#define TF_OPT_FOR_CPU_TARGETS(declare) declare(baseline)
#define TF_OPT_OF_CPU_TARGET(target, ...) (baseline::__VA_ARGS__)
#endif

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

template <typename T>
struct RangeLoops;

// rule_loops.cc and range_loops.cc define these, once per instruction set.
#define TF_OPT_DECLARE_CPU_TARGET(target)           \
  namespace target {                                \
  template <typename Rule>                          \
  const RuleLoops<typename Rule::Value>& LoopsOf(); \
  template <typename T>                             \
  const RangeLoops<T>& RangeLoopsOf();              \
  }
TF_OPT_FOR_CPU_TARGETS(TF_OPT_DECLARE_CPU_TARGET)
#undef TF_OPT_DECLARE_CPU_TARGET

// A rule and its frame, for one variable.
template <typename V>
struct CpuRule {
  template <typename Rule>
  CpuRule(const FramedRule<Rule>& framed, CpuTarget target)
      : frame(framed), loops(&TF_OPT_OF_CPU_TARGET(target, LoopsOf<Rule>())) {
    static_assert(
        std::is_trivially_copyable<Rule>::value && sizeof(Rule) <= sizeof(rule),
        "no room for the rule");
    std::memcpy(rule, &framed.rule, sizeof(Rule));
  }

  bool is_row_wise() const { return loops->for_row != nullptr; }

  // Returns where the first row begins at this element or after it: a range of
  // a row-wise rule has the rows that begin in it. Other rules split rows.
  int64_t NextRow(int64_t element) const {
    return width == 1 ? element : (element + width - 1) / width * width;
  }

  Frame<V> frame;
  // Of a type that the loops know.
  alignas(V) unsigned char rule[16 * sizeof(V)];
  const RuleLoops<V>* loops;
  // Of a row-wise rule: a number for each row of the variable, and the elements
  // of a row. Null in the rule of one row's elements.
  V* row_states = nullptr;
  int64_t width = 1;  // Of any other rule.
};

// The elements [begin, end) of a tensor, with the gradient of the first one;
// null: it is zero everywhere.
template <typename T>
struct TensorRange {
  TF_OPT_RULE_INLINE const T* gradient_at(int64_t start) const {
    return gradient == nullptr ? nullptr : gradient + (start - begin);
  }

  const DenseTensor<T>& tensor;
  const T* gradient;
  int64_t begin;
  int64_t end;
};

template <typename T>
struct RangeLoops {
  using Rule = CpuRule<ComputeType<T>>;
  using Range = TensorRange<T>;

  // Applies the rule and its frame: to whole rows, if the rule has row states.
  // Only accumulates and averages, if the frame doesn't update.
  void (*update)(const Rule& rule, const Range& range);

  // Adds the squares of a row-wise rule's gradient to kLanes lanes, in the
  // order of measure.h: the first element's to lane 0.
  void (*add_squares)(const Rule& rule, const Range& range, double* lanes);
  // Lets the elements of rows that waited coast.
  void (*coast)(const Rule& rule, const Coasting<ComputeType<T>>& coasting,
                const DenseTensor<T>& tensor, int64_t begin, int64_t end);

  // Writes the sum of the `count` entries of a row, from the entry `first` on,
  // to `sum`: of its `columns` elements from `column` on. It is computed in the
  // type of the arithmetic and rounded once, as TensorFlow does where it makes
  // a dense gradient of a sparse one; like that one it is never -0.
  void (*sum_row)(const SparseGradient& gradient, int64_t first, int64_t count,
                  int64_t column, int64_t columns, T* sum);
  // Measures `size` elements of a gradient, at most a tile.
  Measure (*measure)(ComputeType<T> scale, const T* gradient,
                     const ComputeType<T>* accumulator, int64_t size);
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_LOOPS_H_
