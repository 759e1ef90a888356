// The rules of one optimizer, TF_OPT_RULE, for a step on a GPU: compiled with
// CUDA's compiler for a GPU, with any other for its emulation.
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"

#include <cstddef>
#include <vector>

#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/gpu/row_launches.h"
#if defined(__CUDACC__)
#include "tf_opt/cc/engines/gpu/cuda-inl.cuh"
#else
#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"
#endif

namespace tf_opt {

template <typename Rule>
using GpuInputsOf = GpuStepInputs<typename Rule::Description>;

template <typename T, typename Rule>
const char* ApplyDenseGpu(const std::vector<DenseTensor<T>>& tensors,
                          const GpuInputsOf<Rule>& inputs, void* workspace,
                          void* stream) {
  GpuDevice device(stream);
  const GpuRules<Rule> rules(workspace);
  const auto count = static_cast<int64_t>(tensors.size());
  device.Run(MakeRulesWork<Rule>{inputs, rules, count, nullptr},
             BlocksOf(count));
  for (const auto& batch : PlanGpuBatches(tensors)) {
    // Which leaves 64 registers for a thread.
    device.Run<4>(DenseWork<typename GpuDevice::Convert, T, Rule>{batch, rules},
                  batch.tiles());
  }
  return device.error();
}

template <typename Rule, typename T>
RowPlan<T> PlanStep(const std::vector<RowTable<T>>& tables,
                    const GpuRowOptions& how) {
  return RowPlan<T>(tables, Rule::kRowWise, how.sparse && !how.lazy);
}

// A step over rows; its rules are behind the rest of the workspace.
template <typename T, typename Rule>
const char* ApplyRowsGpu(const std::vector<RowTable<T>>& tables,
                         const GpuRowOptions& how,
                         const GpuInputsOf<Rule>& inputs, void* workspace,
                         void* stream) {
  GpuDevice device(stream);
  RowPlan<T> plan = PlanStep<Rule>(tables, how);
  const GpuRules<Rule> rules(static_cast<char*>(workspace) +
                             plan.LayOut(workspace));
  for (RowMemory& memory : plan.memory) memory.header = rules.header();
  const auto count = static_cast<int64_t>(tables.size());
  device.Run(MakeRulesWork<Rule>{inputs, rules, count,
                                 how.waits ? plan.missed : nullptr},
             BlocksOf(count));
  ApplyRows(how, rules, &plan, &device);
  return device.error();
}

template <typename T, typename Rule>
std::size_t RowWorkspaceBytes(const std::vector<RowTable<T>>& tables,
                              const GpuRowOptions& how) {
  return PlanStep<Rule>(tables, how).LayOut(nullptr) +
         GpuRules<Rule>::Bytes(tables.size());
}

// The tables of a step over rows.
template <typename T, typename Rule>
std::vector<RowTable<T>> TablesOf(const GpuStep& step) {
  const StepArrays& arrays = step.arrays;
  const auto tensors = arrays.Tensors<T>(Rule::kSlots);
  std::vector<RowTable<T>> tables(tensors.size());
  for (int i = 0; i < arrays.count(); ++i) {
    RowTable<T>& table = tables[i];
    table.tensor = tensors[i];
    table.width = arrays.widths[i];
    if (!step.rows.sparse) {
      table.slices.rows =
          table.width == 0 ? 0 : table.tensor.size / table.width;
    } else {
      table.slices = step.slices[i];
      table.tensor.operands[kGradient] = const_cast<void*>(table.slices.values);
    }
    int next = Rule::kSlots;
    if constexpr (Rule::kRowWise) {
      table.row_states = static_cast<ComputeType<T>*>(arrays.Slot(next++, i));
    }
    if (!step.rows.waits) continue;
    table.since = static_cast<float*>(arrays.Slot(next, i));
    table.missed = static_cast<MissedSteps*>(arrays.Slot(next + 1, i));
  }
  return tables;
}

// Calls use(TypeTag<T>(), TypeTag<Rule>()) with a step's types.
template <typename Description, typename Use>
auto WithGpuRule(const GpuStep& step, const Use& use) {
  return WithElementType(step.arrays.element, [&](auto element) {
    using T = typename decltype(element)::type;
    return WithRule<Description, ComputeType<T>>(
        step.variant, [&](auto rule) { return use(element, rule); });
  });
}

template <typename Description>
std::size_t GpuWorkspaceBytes(const GpuStep& step) {
  return WithGpuRule<Description>(step, [&step](auto element, auto rule) {
    using Rule = typename decltype(rule)::type;
    using T = typename decltype(element)::type;
    if (Rule::kRowWise || step.rows.sparse) {
      return RowWorkspaceBytes<T, Rule>(TablesOf<T, Rule>(step), step.rows);
    }
    return GpuRules<Rule>::Bytes(step.arrays.count());
  });
}

template <typename Description>
const char* ApplyOnGpu(const GpuStep& step, void* workspace, void* stream) {
  GpuStepInputs<Description> inputs;
  inputs.scalars.known = HyperparametersOf<Description>(step.values);
  inputs.frame.known = step.frame;
  for (std::size_t k = 0; k < step.scalars.size(); ++k) {
    inputs.scalars.Add(Description::kScalars[k], step.scalars[k]);
  }
  for (std::size_t k = 0; k < step.frame_scalars.size(); ++k) {
    inputs.frame.Add(kFrameScalars[k], step.frame_scalars[k]);
  }
  inputs.variables = step.variables;
  inputs.has_accumulators = step.has_accumulators;
  inputs.waits = step.rows.waits;
  inputs.layer = step.layer;
  return WithGpuRule<Description>(step, [&](auto element, auto rule) {
    using T = typename decltype(element)::type;
    using Rule = typename decltype(rule)::type;
    if constexpr (!Rule::kRowWise) {
      if (!step.rows.sparse) {
        return ApplyDenseGpu<T, Rule>(step.arrays.Tensors<T>(Rule::kSlots),
                                      inputs, workspace, stream);
      }
    }
    return ApplyRowsGpu<T, Rule>(TablesOf<T, Rule>(step), step.rows, inputs,
                                 workspace, stream);
  });
}

template std::size_t GpuWorkspaceBytes<TF_OPT_RULE>(const GpuStep&);
template const char* ApplyOnGpu<TF_OPT_RULE>(const GpuStep&, void*, void*);

}  // namespace tf_opt
