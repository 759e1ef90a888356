// A step of any optimizer's rules on the CPU.
#include <utility>
#include <vector>

#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/engines/cpu/sparse_cpu.h"
#include "tf_opt/cc/engines/dense_tensor.h"

namespace tf_opt {
namespace {

template <typename T>
void Apply(const CpuStep& step, const StepRules<ComputeType<T>>& of) {
  if (of.rules.empty()) return;
  auto tensors = step.arrays.Tensors<T>(of.rules[0].loops->slots);
  for (auto& tensor : tensors) tensor = tensor.AtRow(of.tables, step.row);
  if (!step.sparse) {
    ApplyDense(tensors, of.rules, ChosenCpuTarget(), step.threads,
               step.parallel_for, step.frame.update);
    return;
  }
  std::vector<SparseGradient<T>> gradients;
  gradients.reserve(step.slices.size());
  for (const CpuStep::Slices& one : step.slices) {
    gradients.push_back(
        {static_cast<const T*>(one.values), one.width, one.entries});
  }
  if (step.waiting.empty()) {
    ApplySparse(tensors, gradients, of.rules, step.lazy, ChosenCpuTarget(),
                step.threads, step.parallel_for, step.frame.update);
  } else {
    ApplyToWaiting(tensors, gradients, of.rules, of.missed, step.lazy,
                   ChosenCpuTarget(), step.threads, step.parallel_for,
                   step.frame.update, step.waiting);
  }
}

}  // namespace

void ApplyStep(const CpuStep& step, const StepRules<float>& of) {
  switch (step.arrays.element) {
    case ElementType::kHalf:
      return Apply<Half>(step, of);
    case ElementType::kBFloat16:
      return Apply<BFloat16>(step, of);
    default:
      return Apply<float>(step, of);
  }
}

void ApplyStep(const CpuStep& step, const StepRules<double>& of) {
  Apply<double>(step, of);
}

}  // namespace tf_opt
