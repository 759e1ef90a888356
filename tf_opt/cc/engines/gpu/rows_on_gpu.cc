// What the GPU engine does with rows without a rule: it sorts and sums them,
// merges slices, and counts missed steps. Compiled with CUDA's compiler for a
// GPU, with any other for its emulation.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/row_batch.h"
#include "tf_opt/cc/engines/gpu/row_launches.h"
#include "tf_opt/cc/engines/gpu/row_sort.h"
#include "tf_opt/cc/engines/gpu/sum_rows_gpu.h"
#include "tf_opt/cc/engines/gpu/waiting_rows_gpu.h"
#if defined(__CUDACC__)
#include "tf_opt/cc/engines/gpu/cuda-inl.cuh"
#else
#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"
#endif

namespace tf_opt {

template <typename T, typename Device>
void SortAndSum(RowPlan<T>* plan, BadRow* report, Device* device) {
  if (plan->batches.empty()) return;
  const int64_t entries = plan->entries;
  device->Clear(plan->memory[0].bad,
                (1 + plan->batches.size()) * sizeof(uint32_t));
  for (std::size_t b = 0; b < plan->batches.size(); ++b) {
    const RowStep<T> step = plan->StepOf(b);
    if (step.memory.occurring != nullptr) {
      device->Clear(step.memory.occurring,
                    plan->WordsOf(step.batch) * sizeof(uint32_t));
    }
    device->Run(MakeKeysWork<Device, T>{step, entries},
                BlocksOf(step.batch.entries()));
  }
  for (std::size_t b = 0; b < plan->batches.size(); ++b) {
    const RowBatch<T>& batch = plan->batches[b];
    RowMemory& own = plan->memory[b];
    if (batch.entries() == 0) continue;
    int bits = 1;
    while (bits < 32 && (batch.keys - 1) >> bits > 0) ++bits;
    if (device->error() == nullptr) {
      device->Note(SortKeys(batch.entries(), bits, &own.keys, &own.other_keys,
                            &own.positions, &own.other_positions,
                            plan->sort_room, plan->sort_room_bytes,
                            device->stream()));
    }
    const RowStep<T> step = plan->StepOf(b);
    device->template Run<4>(SumRowsWork<Device, T>{step, entries, report},
                            plan->EntryBlocks(batch));
    int64_t columns = 1;
    for (int i = 0; i < batch.count; ++i) {
      if (batch.entries_of(i) <= kLongSegment) continue;
      columns = std::max(columns, batch.tables[i].width);
    }
    constexpr int64_t kColumns = SumLongRowsWork<Device, T>::kColumns;
    device->RunStages(
        SumLongRowsWork<Device, T>{step, (columns + kColumns - 1) / kColumns});
  }
}

template <typename T, typename Device>
void BeginCatchUp(const RowStep<T>& step, bool lazy, Device* device) {
  device->Run(CountMissedWork<T>{step, lazy}, BlocksOf(step.batch.count));
}

template <typename T, typename Device>
void EndCatchUp(const RowStep<T>& step, Device* device) {
  const int64_t blocks = std::clamp<int64_t>(RowPlan<T>::RowBlocks(step.batch),
                                             1, kBlocksOverAllRows);
  device->Run(MarkAllWork<T>{step, blocks}, blocks);
}

template <typename T, typename Device>
void MissStep(const RowStep<T>& step, Device* device) {
  device->Run(
      MissStepWork<T>{step},
      std::max<int64_t>(RowPlan<T>::EntryBlocks(step.batch), step.batch.count));
}

template <typename T>
RowPlan<T> PlanMerge(const std::vector<GpuSlices>& slices,
                     const std::vector<int64_t>& widths) {
  std::vector<RowTable<T>> tables(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    tables[i].tensor.operands[kGradient] = const_cast<void*>(slices[i].values);
    tables[i].slices = slices[i];
    tables[i].width = widths[i];
  }
  return RowPlan<T>(tables, /*warp_a_row=*/false, /*marks=*/false);
}

template <typename T>
std::size_t MergeWorkspaceBytes(const std::vector<GpuSlices>& slices,
                                const std::vector<int64_t>& widths) {
  return PlanMerge<T>(slices, widths).LayOut(nullptr);
}

template <typename T>
const char* MergeSlicesGpu(const std::vector<GpuSlices>& slices,
                           const std::vector<int64_t>& widths,
                           const std::vector<MergedOutput<T>>& outputs,
                           BadRow* report, void* workspace, void* stream) {
  GpuDevice device(stream);
  RowPlan<T> plan = PlanMerge<T>(slices, widths);
  plan.LayOut(workspace);
  SortAndSum(&plan, report, &device);
  for (std::size_t b = 0; b < plan.batches.size(); ++b) {
    const RowStep<T> step = plan.StepOf(b);
    const RowBatch<T>& batch = step.batch;
    if (batch.entries() == 0) continue;
    // The other arrays of the sort are free.
    device.Run(MarkSegmentsWork<T>{step, step.memory.other_keys},
               BlocksOf(batch.entries()));
    if (device.error() == nullptr) {
      device.Note(AddUpTo(batch.entries(), step.memory.other_keys,
                          step.memory.other_positions, plan.sort_room,
                          plan.sort_room_bytes, stream));
    }
    WriteMergedWork<GpuDevice, T> work = {step, step.memory.other_positions};
    std::copy_n(outputs.begin() + batch.first, batch.count, work.outputs);
    device.Run<4>(work, plan.EntryBlocks(batch));
  }
  return device.error();
}

#define TF_OPT_INSTANTIATE(T)                                                \
  template void SortAndSum<T, GpuDevice>(RowPlan<T>*, BadRow*, GpuDevice*);  \
  template void BeginCatchUp<T, GpuDevice>(const RowStep<T>&, bool,          \
                                           GpuDevice*);                      \
  template void EndCatchUp<T, GpuDevice>(const RowStep<T>&, GpuDevice*);     \
  template void MissStep<T, GpuDevice>(const RowStep<T>&, GpuDevice*);       \
  template const char* MergeSlicesGpu<T>(                                    \
      const std::vector<GpuSlices>&, const std::vector<int64_t>&,            \
      const std::vector<MergedOutput<T>>&, BadRow*, void*, void*);           \
  template std::size_t MergeWorkspaceBytes<T>(const std::vector<GpuSlices>&, \
                                              const std::vector<int64_t>&)
TF_OPT_INSTANTIATE(Half);
TF_OPT_INSTANTIATE(BFloat16);
TF_OPT_INSTANTIATE(float);
TF_OPT_INSTANTIATE(double);

}  // namespace tf_opt
