// The dense CPU engine: one rule over many tensors, in one launch.
//
// The engine knows no formula and no framework: the caller passes raw pointers,
// a rule for each tensor and a way to run a loop in parallel.
#ifndef TF_OPT_CC_ENGINES_CPU_DENSE_CPU_H_
#define TF_OPT_CC_ENGINES_CPU_DENSE_CPU_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/parallel_for.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Applies `rule` and its frame to the elements [begin, end) of `tensor`, or
// only accumulates. A null gradient is zero everywhere.
// Or lets the elements of rows that waited coast.
// engines/cpu/dense_cpu_range-inl.h and coast_cpu_range-inl.h define these once
// per instruction set.
#define TF_OPT_DECLARE_CPU_TARGET(target)                                    \
  namespace target {                                                         \
  template <typename T, typename Rule>                                       \
  void ApplyRange(const FramedRule<Rule>& rule,                              \
                  const DenseTensor<T, Rule::kSlots>& tensor, int64_t begin, \
                  int64_t end);                                              \
  template <typename T, typename Rule>                                       \
  void AccumulateRange(const FramedRule<Rule>& rule,                         \
                       const DenseTensor<T, Rule::kSlots>& tensor,           \
                       int64_t begin, int64_t end);                          \
  template <typename T, typename Rule>                                       \
  void CoastRange(const FramedRule<Rule>& rule,                              \
                  const Coasting<ComputeType<T>>& coasting,                  \
                  const DenseTensor<T, Rule::kSlots>& tensor, int64_t begin, \
                  int64_t end);                                              \
  }
TF_OPT_FOR_CPU_TARGETS(TF_OPT_DECLARE_CPU_TARGET)
#undef TF_OPT_DECLARE_CPU_TARGET

template <typename T, typename Rule>
using RangeFunction = void (*)(const FramedRule<Rule>&,
                               const DenseTensor<T, Rule::kSlots>&, int64_t,
                               int64_t);

template <typename T, typename Rule>
using CoastFunction = void (*)(const FramedRule<Rule>&,
                               const Coasting<ComputeType<T>>&,
                               const DenseTensor<T, Rule::kSlots>&, int64_t,
                               int64_t);

// `update` is false if the step only accumulates.
template <typename T, typename Rule>
RangeFunction<T, Rule> RangeFunctionFor(CpuTarget target, bool update = true) {
  return update ? TF_OPT_OF_CPU_TARGET(target, ApplyRange<T, Rule>)
                : TF_OPT_OF_CPU_TARGET(target, AccumulateRange<T, Rule>);
}

// Bytes that an update moves per element: it reads variable, gradient and slots
// and writes variable and slots.
template <typename T, typename Rule>
constexpr int64_t kBytesPerElement =
    3 * sizeof(T) + 2 * Rule::kSlots * sizeof(ComputeType<T>);

// Applies rules[i] to tensors[i], for all i; `update` is as above.
template <typename T, typename Rule>
void ApplyDense(const std::vector<DenseTensor<T, Rule::kSlots>>& tensors,
                const std::vector<FramedRule<Rule>>& rules, CpuTarget target,
                int num_threads, const ParallelFor& parallel_for,
                bool update = true) {
  std::vector<int64_t> sizes;
  sizes.reserve(tensors.size());
  for (const auto& tensor : tensors) sizes.push_back(tensor.size);
  const RangeFunction<T, Rule> apply_range =
      RangeFunctionFor<T, Rule>(target, update);
  ForRanges(std::move(sizes), kBytesPerElement<T, Rule>, num_threads,
            parallel_for, [&](int i, int64_t begin, int64_t end) {
              apply_range(rules[i], tensors[i], begin, end);
            });
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_DENSE_CPU_H_
