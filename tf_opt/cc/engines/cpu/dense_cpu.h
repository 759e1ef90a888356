// The dense CPU engine: one optimizer over many tensors, in one launch.
//
// The engine knows no formula and no framework: the caller passes raw pointers,
// a rule for each tensor and a way to run a loop in parallel.
#ifndef TF_OPT_CC_ENGINES_CPU_DENSE_CPU_H_
#define TF_OPT_CC_ENGINES_CPU_DENSE_CPU_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tf_opt/cc/engines/cpu/cpu_rule.h"
#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/parallel_for.h"
#include "tf_opt/cc/engines/cpu/range_loops.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"

namespace tf_opt {

template <typename T>
using CpuRules = std::vector<CpuRule<ComputeType<T>>>;

// Calls apply(i, begin, end) for ranges that cover sizes[i] elements of
// variable i; for a row-wise rule, each is of whole rows.
template <typename T>
void ForRangesOf(std::vector<int64_t> sizes, const CpuRules<T>& rules,
                 int num_threads, const ParallelFor& parallel_for,
                 const std::function<void(int, int64_t, int64_t)>& apply) {
  if (rules.empty()) return;
  const RuleLoops<ComputeType<T>>& loops = *rules[0].loops;
  // An update reads variable, gradient and slots and writes variable and slots.
  const int64_t bytes_per_element =
      3 * sizeof(T) + 2 * loops.slots * sizeof(ComputeType<T>);
  ForRanges(std::move(sizes), bytes_per_element, num_threads, parallel_for,
            [&](int i, int64_t begin, int64_t end) {
              if (rules[i].is_row_wise()) {
                // A row belongs to the range in which it begins.
                const int64_t row = rules[i].width;
                begin = (begin + row - 1) / row * row;
                end = (end + row - 1) / row * row;
              }
              apply(i, begin, end);
            });
}

// Applies rules[i] to tensors[i], for all i.
template <typename T>
void ApplyDense(const std::vector<DenseTensor<T>>& tensors,
                const CpuRules<T>& rules, CpuTarget target, int num_threads,
                const ParallelFor& parallel_for) {
  std::vector<int64_t> sizes;
  sizes.reserve(tensors.size());
  for (const auto& tensor : tensors) sizes.push_back(tensor.size);
  const RangeLoops<T>& loops = TF_OPT_OF_CPU_TARGET(target, RangeLoopsOf<T>());

  ForRangesOf<T>(std::move(sizes), rules, num_threads, parallel_for,
                 [&](int i, int64_t begin, int64_t end) {
                   loops.apply(
                       rules[i],
                       {tensors[i], tensors[i].gradient() + begin, begin, end});
                 });
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_DENSE_CPU_H_
