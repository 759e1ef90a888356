// The dense CPU engine: one rule over many tensors, in one launch.
//
// The engine knows no formula and no framework: the caller passes raw pointers,
// a rule for each tensor and a way to run a loop in parallel.
#ifndef TF_OPT_CC_ENGINES_CPU_DENSE_CPU_H_
#define TF_OPT_CC_ENGINES_CPU_DENSE_CPU_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/parallel_for.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Applies `rule` and its frame to the elements [begin, end) of `tensor`, or
// only accumulates. A null gradient is zero everywhere. If the rule is row-wise
// they are those of whole rows; without row states, of a row with this rule.
// Or adds the squares of a row's elements to kLanes lanes, in the order of
// measure.h: those of a row-wise rule's gradient, element `begin` to lane 0.
// Or lets the elements of rows that waited coast. (A rule that isn't row-wise,
// or doesn't coast, has the last two without a body.)
// engines/cpu/dense_cpu_range-inl.h and coast_cpu_range-inl.h define these once
// per instruction set.
#define TF_OPT_DECLARE_CPU_TARGET(target)                                      \
  namespace target {                                                           \
  template <typename T, typename Rule>                                         \
  void ApplyRange(const FramedRule<Rule>& rule,                                \
                  const TensorOf<T, Rule>& tensor, int64_t begin,              \
                  int64_t end);                                                \
  template <typename T, typename Rule>                                         \
  void AccumulateRange(const FramedRule<Rule>& rule,                           \
                       const TensorOf<T, Rule>& tensor, int64_t begin,         \
                       int64_t end);                                           \
  template <typename T, typename Rule>                                         \
  void AddSquares(const FramedRule<Rule>& rule,                                \
                  const TensorOf<T, Rule>& tensor, int64_t begin, int64_t end, \
                  double* lanes);                                              \
  template <typename T, typename Rule>                                         \
  void CoastRange(const FramedRule<Rule>& rule,                                \
                  const Coasting<ComputeType<T>>& coasting,                    \
                  const TensorOf<T, Rule>& tensor, int64_t begin,              \
                  int64_t end);                                                \
  }
TF_OPT_FOR_CPU_TARGETS(TF_OPT_DECLARE_CPU_TARGET)
#undef TF_OPT_DECLARE_CPU_TARGET

template <typename T, typename Rule>
using RangeFunction = void (*)(const FramedRule<Rule>&,
                               const TensorOf<T, Rule>&, int64_t, int64_t);

template <typename T, typename Rule>
using CoastFunction = void (*)(const FramedRule<Rule>&,
                               const Coasting<ComputeType<T>>&,
                               const TensorOf<T, Rule>&, int64_t, int64_t);

// Bytes that an update moves per element: it reads variable, gradient and slots
// and writes variable and slots.
template <typename T, typename Rule>
constexpr int64_t kBytesPerElement =
    3 * sizeof(T) + 2 * Rule::kSlots * sizeof(ComputeType<T>);

// The loops of one rule and instruction set.
template <typename T, typename Rule>
class RuleLoops {
 public:
  using Tensor = TensorOf<T, Rule>;

  // `update` is false if the step only accumulates.
  explicit RuleLoops(CpuTarget target, bool update = true)
      : range_(update ? TF_OPT_OF_CPU_TARGET(target, ApplyRange<T, Rule>)
                      : TF_OPT_OF_CPU_TARGET(target, AccumulateRange<T, Rule>)),
        add_squares_(update ? TF_OPT_OF_CPU_TARGET(target, AddSquares<T, Rule>)
                            : nullptr) {}

  // Applies the rule to the elements [begin, end): those of whole rows, if it
  // is row-wise.
  void Apply(const FramedRule<Rule>& rule, const Tensor& tensor, int64_t begin,
             int64_t end) const {
    range_(rule, tensor, begin, end);
  }

  // Applies the rule to the columns [begin, end) of a row: to all, if it is
  // row-wise. They come in parts of at most `most` elements, which
  // part_at(column, count) returns.
  template <typename PartAt>
  void ApplyInParts(const FramedRule<Rule>& rule, int64_t begin, int64_t end,
                    int64_t most, const PartAt& part_at) const {
    if constexpr (Rule::kRowWise) {
      if (add_squares_ != nullptr && end - begin > most) {
        ApplyToLongRow(rule, end, most, part_at);
        return;
      }
    }
    for (; begin < end; begin += most) {
      const Tensor part = part_at(begin, std::min(end - begin, most));
      range_(rule, part, 0, part.size);
    }
  }

 private:
  using AddSquaresFunction = void (*)(const FramedRule<Rule>&, const Tensor&,
                                      int64_t, int64_t, double*);

  // For a row of several parts, which are there one at a time.
  template <typename PartAt>
  void ApplyToLongRow(const FramedRule<Rule>& rule, int64_t width, int64_t most,
                      const PartAt& part_at) const {
    alignas(64) double lanes[kLanes] = {};
    for (int64_t column = 0; column < width; column += most) {
      const Tensor part = part_at(column, std::min(width - column, most));
      add_squares_(rule, part, 0, part.size, lanes);
    }
    FramedRule<Rule> own = rule;
    own.rule = rule.rule.ForRow(MeanOfLanes<ComputeType<T>>(lanes, width),
                                part_at(0, most).row_state());
    for (int64_t column = 0; column < width; column += most) {
      Tensor part = part_at(column, std::min(width - column, most));
      part.row_states = nullptr;
      range_(own, part, 0, part.size);
    }
  }

  RangeFunction<T, Rule> range_;
  AddSquaresFunction add_squares_;  // Null unless it updates.
};

// Calls apply(i, begin, end) for ranges that cover all elements of `sizes`; for
// a row-wise rule, each is of whole rows of `width(i)` elements.
template <typename T, typename Rule, typename Width, typename Apply>
void ForRangesOf(std::vector<int64_t> sizes, const Width& width,
                 int num_threads, const ParallelFor& parallel_for,
                 const Apply& apply) {
  ForRanges(std::move(sizes), kBytesPerElement<T, Rule>, num_threads,
            parallel_for, [&](int i, int64_t begin, int64_t end) {
              if constexpr (Rule::kRowWise) {
                // A row belongs to the range in which it begins.
                const int64_t row = width(i);
                begin = (begin + row - 1) / row * row;
                end = (end + row - 1) / row * row;
              }
              apply(i, begin, end);
            });
}

// Applies rules[i] to tensors[i], for all i; `update` is as above.
template <typename T, typename Rule>
void ApplyDense(const std::vector<TensorOf<T, Rule>>& tensors,
                const std::vector<FramedRule<Rule>>& rules, CpuTarget target,
                int num_threads, const ParallelFor& parallel_for,
                bool update = true) {
  std::vector<int64_t> sizes;
  sizes.reserve(tensors.size());
  for (const auto& tensor : tensors) sizes.push_back(tensor.size);
  const RuleLoops<T, Rule> loops(target, update);
  const auto width = [&](int i) {
    if constexpr (Rule::kRowWise) return tensors[i].width;
    return int64_t{1};
  };
  ForRangesOf<T, Rule>(std::move(sizes), width, num_threads, parallel_for,
                       [&](int i, int64_t begin, int64_t end) {
                         loops.Apply(rules[i], tensors[i], begin, end);
                       });
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_DENSE_CPU_H_
