// A step of any optimizer's rules on the CPU.
#include <vector>

#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/engines/cpu/sparse_cpu.h"

namespace tf_opt {
namespace {

template <typename T>
void Apply(const CpuStep& step, const CpuRules<T>& rules, OperandSet tables,
           const std::vector<MissedStep>& missed) {
  if (rules.empty()) return;
  auto tensors = step.arrays.Tensors<T>(rules[0].loops->slots);
  for (auto& tensor : tensors) tensor = tensor.AtRow(tables, step.row);
  if (!step.sparse) {
    ApplyDense(tensors, rules, ChosenCpuTarget(), step.threads,
               step.parallel_for);
    return;
  }
  std::vector<SparseGradient<T>> gradients;
  gradients.reserve(step.slices.size());
  for (const CpuStep::Slices& one : step.slices) {
    gradients.push_back(
        {static_cast<const T*>(one.values), one.width, one.entries});
  }
  ApplySparse(tensors, gradients, rules, step.lazy, ChosenCpuTarget(),
              step.threads, step.parallel_for, step.waiting, missed);
}

}  // namespace

void ApplyStep(const CpuStep& step, const std::vector<CpuRule<float>>& rules,
               OperandSet tables, const std::vector<MissedStep>& missed) {
  switch (step.arrays.element) {
    case ElementType::kHalf:
      return Apply<Half>(step, rules, tables, missed);
    case ElementType::kBFloat16:
      return Apply<BFloat16>(step, rules, tables, missed);
    default:
      return Apply<float>(step, rules, tables, missed);
  }
}

void ApplyStep(const CpuStep& step, const std::vector<CpuRule<double>>& rules,
               OperandSet tables, const std::vector<MissedStep>& missed) {
  Apply<double>(step, rules, tables, missed);
}

}  // namespace tf_opt
