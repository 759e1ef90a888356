// The rules of one optimizer, TF_OPT_RULE, for a step on a GPU: compiled with
// CUDA's compiler for a GPU, with any other for its emulation.
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"

#include <cstddef>
#include <vector>

#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/gpu/row_batch.h"
#include "tf_opt/cc/engines/gpu/rows_gpu.h"
#include "tf_opt/cc/engines/gpu/waiting_rows_gpu.h"

namespace tf_opt {

template <typename T, typename Rule>
const char* ApplyDense(const GpuStep& step,
                       const typename GpuRules<Rule>::Inputs& inputs,
                       const GpuQueue& queue) {
  GpuDevice device(queue.stream);
  const int64_t count = step.arrays.count();
  const GpuRules<Rule> rules(queue.allocate(GpuRules<Rule>::Bytes(count)));
  const MakeRulesWork<Rule> make = {inputs, rules, count, step.report, nullptr};
  device.Run(make, make.blocks());
  for (const auto& batch :
       PlanGpuBatches(step.arrays.Tensors<T>(Rule::kSlots))) {
    // Which leaves 64 registers for a thread.
    device.Run<4>(DenseWork<T, Rule>{batch, rules}, batch.tiles());
  }
  return device.error();
}

// The tables of a step over rows.
template <typename T, typename Rule>
std::vector<RowTable<T>> TablesOf(const GpuStep& step) {
  const StepArrays& arrays = step.arrays;
  std::vector<RowTable<T>> tables;
  for (const DenseTensor<T>& tensor : arrays.Tensors<T>(Rule::kSlots)) {
    const int i = static_cast<int>(tables.size());
    RowTable<T>& table = tables.emplace_back();
    const int64_t width = arrays.widths[i];
    if (step.rows.sparse) {
      static_cast<TableSlices&>(table) = step.slices[i];
    } else {
      table.values = tensor.gradient();
      table.rows = width == 0 ? 0 : tensor.size / width;
    }
    table.width = width;
    table.tensor = tensor;
    int next = Rule::kSlots;
    if constexpr (Rule::kRowWise) {
      table.row_states = static_cast<ComputeType<T>*>(arrays.Slot(next++, i));
    }
    if (!step.rows.waits) continue;
    table.since = static_cast<float*>(arrays.Slot(next, i));
    table.missed = static_cast<MissedSteps*>(arrays.Slot(next + 1, i));
    table.capacity = step.capacities[i];
  }
  return tables;
}

template <typename T, typename Rule>
const char* ApplyRows(const GpuStep& step,
                      const typename GpuRules<Rule>::Inputs& inputs,
                      const GpuQueue& queue) {
  const RowOptions& how = step.rows;
  GpuDevice device(queue.stream);
  const int64_t count = step.arrays.count();
  const auto batches = PlanRows(TablesOf<T, Rule>(step), how, Rule::kRowWise,
                                GpuRules<Rule>::Bytes(count), queue);
  const GpuRules<Rule> rules(batches[0].header);
  const MakeRulesWork<Rule> make = {inputs, rules, count, step.report,
                                    how.waits ? batches[0].missed : nullptr};
  device.Run(make, make.blocks());
  SortAndSum(batches, how, step.report, &device);
  for (const RowBatch<T>& batch : batches) {
    const auto take = [&](Rows rows) {
      if constexpr (Rule::kRowWise) {
        device.RunWarps<3>(TakeRowWiseWork<T, Rule>{batch, rules, rows},
                           batch.blocks(rows) * kGpuWarps);
      } else {
        device.Run<3>(TakeRowsWork<T, Rule>{batch, rules, rows},
                      batch.blocks(rows));
      }
    };
    if constexpr (Rule::Description::kCoasts) {
      if (how.waits) {
        device.Run<2>(CatchUpWork<T, Rule>{batch, rules},
                      BlocksCatchingUp(batch));
      }
    }
    take(Rows::kOccurring);
    if (!how.lazy) take(how.sparse ? Rows::kOthers : Rows::kAll);
    if (how.waits) MarkWaiting(batch, how.lazy, &device);
  }
  return device.error();
}

template <typename Description>
const char* ApplyOnGpu(const GpuStep& step, const GpuQueue& queue) {
  GpuStepInputs<Description> inputs;
  inputs.scalars.known = HyperparametersOf<Description>(step.numbers);
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
  return WithElementType(step.arrays.element, [&](auto element) {
    using T = typename decltype(element)::type;
    return WithRule<Description, ComputeType<T>>(step.variant, [&](auto rule) {
      using Rule = typename decltype(rule)::type;
      if constexpr (!Rule::kRowWise) {
        if (!step.rows.sparse) return ApplyDense<T, Rule>(step, inputs, queue);
      }
      return ApplyRows<T, Rule>(step, inputs, queue);
    });
  });
}

template const char* ApplyOnGpu<TF_OPT_RULE>(const GpuStep&, const GpuQueue&);

}  // namespace tf_opt
