#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"

#include "tf_opt/cc/engines/cpu/sparse_cpu.h"

namespace tf_opt {
namespace {

// Applies rules[i] to tensors[i], for all i.
template <typename T>
void ApplyDense(const CpuStep& step, const std::vector<DenseTensor<T>>& tensors,
                const CpuRules<T>& rules) {
  const RangeLoops<T>& loops =
      TF_OPT_OF_CPU_TARGET(step.target, RangeLoopsOf<T>());
  ForRanges(step.arrays.sizes, BytesPerElement<T>(rules), step.threads,
            [&](int i, int64_t begin, int64_t end) {
              begin = rules[i].NextRow(begin);
              end = rules[i].NextRow(end);
              loops.update(rules[i], {tensors[i], tensors[i].gradient() + begin,
                                      begin, end});
            });
}

}  // namespace

void ApplyOnCpu(const CpuStep& step, const RuleMakers& makers) {
  WithElementType(step.arrays.element, [&](auto element) {
    using T = typename decltype(element)::type;
    std::vector<MissedStep> missed;
    const CpuRules<T> rules =
        std::get<RuleMaker<ComputeType<T>>>(makers)(step, &missed);
    if (rules.empty()) return;
    const auto tensors = step.arrays.Tensors<T>(rules[0].loops->slots);
    step.rows.sparse ? ApplySparse(step, tensors, rules, missed)
                     : ApplyDense(step, tensors, rules);
  });
}

}  // namespace tf_opt
