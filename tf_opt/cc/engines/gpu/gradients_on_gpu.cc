// What the GPU engine does without a rule: it measures gradients, sorts, sums
// and merges rows, finds those that wait, and copies. Compiled with CUDA's
// compiler for a GPU, with any other for its emulation.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/gpu/measure_gpu.h"
#include "tf_opt/cc/engines/gpu/row_batch.h"
#include "tf_opt/cc/engines/gpu/sum_rows_gpu.h"
#include "tf_opt/cc/engines/gpu/waiting_rows_gpu.h"
#if defined(__CUDACC__)
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#endif

namespace tf_opt {
namespace {

#if defined(__CUDACC__)

// Sorts keys by their lowest bits, stably, with their positions. Without `room`
// it only tells the bytes that it needs there, as does AddUp.
const char* Sort(int64_t count, int bits, const uint32_t* keys,
                 uint32_t* sorted_keys, const uint32_t* positions,
                 uint32_t* sorted_positions, void* room, std::size_t* bytes,
                 void* stream) {
  return ErrorOf(cub::DeviceRadixSort::SortPairs(
      room, *bytes, keys, sorted_keys, positions, sorted_positions,
      static_cast<int>(count), 0, bits, static_cast<cudaStream_t>(stream)));
}

// Replaces each number by the sum of all up to it.
const char* AddUp(int64_t count, uint32_t* numbers, void* room,
                  std::size_t* bytes, void* stream) {
  return ErrorOf(cub::DeviceScan::InclusiveSum(
      room, *bytes, numbers, numbers, static_cast<int>(count),
      static_cast<cudaStream_t>(stream)));
}

#else

const char* Sort(int64_t count, int bits, const uint32_t* keys,
                 uint32_t* sorted_keys, const uint32_t* positions,
                 uint32_t* sorted_positions, void* room, std::size_t* bytes,
                 void*) {
  *bytes = 1;
  if (room == nullptr) return nullptr;
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  const uint32_t mask = ~0u >> (32 - bits);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return (keys[a] & mask) < (keys[b] & mask);
  });
  for (const int64_t k : order) {
    *sorted_keys++ = keys[k];
    *sorted_positions++ = positions[k];
  }
  return nullptr;
}

const char* AddUp(int64_t count, uint32_t* numbers, void* room,
                  std::size_t* bytes, void*) {
  *bytes = 1;
  if (room != nullptr) std::partial_sum(numbers, numbers + count, numbers);
  return nullptr;
}

#endif

// Divides a table's rows among threads.
template <typename T>
void Divide(bool warp_a_row, RowTable<T>* table) {
  table->tensor.operands[kGradient] = const_cast<void*>(table->values);
  constexpr int kPack = kGpuPackOf<T>;
  table->packs = table->width % kPack == 0 && HasPacks(table->tensor);
  const int pack = table->packs ? kPack : 1;
  while (table->group() < kWarpThreads &&
         (warp_a_row || table->group() * pack < table->width)) {
    ++table->group_shift;
  }
}

// Adds a table to a batch that has room.
template <typename T>
void AddTable(const RowTable<T>& table, RowBatch<T>* batch) {
  batch->keys_end += static_cast<uint32_t>(table.rows + 1);
  const int64_t groups = kGpuThreads / table.group();
  const int i = batch->count++;
  const auto add = [i](int64_t count, int64_t size, int64_t* ends) {
    ends[i] = (i == 0 ? 0 : ends[i - 1]) + (count + size - 1) / size;
  };
  add(table.entries(), 1, batch->entry_ends);
  add(table.entries(), groups * batch->entry_rounds, batch->entry_block_ends);
  add(table.rows, groups * batch->row_rounds, batch->row_block_ends);
  batch->tables[i] = table;
}

}  // namespace

const char* GpuProblem(int device) {
#if defined(__CUDACC__)
  // Loads the kernel: for this GPU there may be no machine code, and the driver
  // may be too old to make it.
  cudaFuncAttributes attributes;
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) {
    error = cudaFuncGetAttributes(&attributes, RunWork<1, MakeKeysWork<float>>);
  }
  cudaGetLastError();  // No later launch has failed.
  return ErrorOf(error);
#else
  return nullptr;
#endif
}

const char* AddressOnGpu(void* host, void** address) {
#if defined(__CUDACC__)
  cudaPointerAttributes attributes;
  const cudaError_t error = cudaPointerGetAttributes(&attributes, host);
  *address = attributes.devicePointer;
  return ErrorOf(error);
#else
  *address = host;
  return nullptr;
#endif
}

const char* CopyOnGpu(void* to, const void* from, std::size_t bytes,
                      void* stream) {
  GpuDevice device(stream);
  device.Copy(to, from, bytes);
  return device.error();
}

template <typename T>
const char* MeasureGradientsGpu(const std::vector<MeasuredTensor<T>>& tensors,
                                const MeasureArguments& arguments,
                                const GpuQueue& queue) {
  GpuDevice device(queue.stream);
  int64_t count = 0;
  for (const auto& tensor : tensors) count += CountTiles(tensor.size);
  auto* const tiles =
      static_cast<Measure*>(queue.allocate(count * sizeof(Measure)));
  for (const auto& batch : PlanGpuBatches(tensors)) {
    device.RunWarps(MeasureTilesWork<T>{batch, arguments, tiles},
                    batch.tiles());
    device.RunWarps(AddTilesWork<T>{batch, arguments, tiles}, batch.count);
  }
  return device.error();
}

template <typename T>
std::vector<RowBatch<T>> PlanRows(std::vector<RowTable<T>> tables,
                                  const RowOptions& how, bool warp_a_row,
                                  std::size_t header_bytes,
                                  const GpuQueue& queue) {
  int64_t threads = 0;
  for (RowTable<T>& table : tables) {
    Divide(warp_a_row, &table);
    threads += table.entries() * table.group();
  }
  std::vector<RowBatch<T>> batches;
  constexpr uint32_t kMostKeys = ~0u - 1;
  int64_t entries = 0;
  for (RowTable<T>& table : tables) {
    if (batches.empty() || batches.back().count == RowBatch<T>::kCapacity ||
        table.rows >= kMostKeys - batches.back().keys_end) {
      batches.emplace_back();
      batches.back().first = static_cast<int>(&table - tables.data());
      batches.back().first_entry = entries;
      // A warp that measures a row has no other.
      batches.back().row_rounds = warp_a_row ? 1 : kRowRounds;
      const bool has_many = BlocksOf(threads) >= kManyBlocks;
      batches.back().entry_rounds = has_many ? batches.back().row_rounds : 1;
    }
    table.key_begin = batches.back().keys_end;
    AddTable(table, &batches.back());
    entries += table.entries();
  }

  // First counts the bytes, then gives each array its place.
  constexpr std::size_t kAlignment = 256;
  uintptr_t end = 0;
  [[maybe_unused]] bool poisons = false;
  const auto place = [&](auto** array, int64_t count) {
    *array = reinterpret_cast<std::remove_reference_t<decltype(*array)>>(end);
    const std::size_t bytes = count * sizeof(**array);
    [[maybe_unused]] const uintptr_t array_end = end + bytes;
    end += (bytes + kAlignment) / kAlignment * kAlignment;
#if defined(__SANITIZE_ADDRESS__)
    if (poisons) __asan_poison_memory_region((void*)array_end, end - array_end);
#endif
  };
  for (const bool counts : {true, false}) {
    if (!counts) end = reinterpret_cast<uintptr_t>(queue.allocate(end));
    poisons = !counts;
    char* header;
    MissedStep* missed;
    place(&header, header_bytes);
    place(&missed, tables.size());
    for (RowBatch<T>& batch : batches) {
      const int64_t count = batch.entries();
      batch.header = reinterpret_cast<GpuStepHeader*>(header);
      batch.missed = missed + batch.first;
      place(&batch.keys, count);
      place(&batch.positions, count);
      place(&batch.unsorted_keys, count);
      place(&batch.unsorted_positions, count);
      batch.counts = batch.unsorted_keys;
      if (how.sparse && !how.lazy) place(&batch.occurs, batch.keys_end);
      if (how.waits) place(&batch.waiting, batch.count);
      for (int i = 0; i < batch.count; ++i) {
        RowTable<T>& table = batch.tables[i];
        const int64_t windows =
            (table.entries() + kSegmentWindow - 1) / kSegmentWindow;
        place(&table.sums, windows * table.width);
      }
      std::size_t sum = 0;
      Sort(count, 32, batch.keys, batch.keys, batch.keys, batch.keys, nullptr,
           &batch.sort_room_bytes, nullptr);
      AddUp(count, batch.keys, nullptr, &sum, nullptr);
      batch.sort_room_bytes = std::max(batch.sort_room_bytes, sum);
      place(&batch.sort_room, batch.sort_room_bytes);
    }
  }
  return batches;
}

template <typename T>
void SortAndSum(const std::vector<RowBatch<T>>& batches, const RowOptions& how,
                Refusal* report, GpuDevice* device) {
  for (const RowBatch<T>& batch : batches) {
    if (batch.occurs != nullptr) device->Clear(batch.occurs, batch.keys_end);
    const int64_t waiting = how.waits ? batch.count : 0;
    device->Run(MakeKeysWork<T>{batch, how.lazy},
                BlocksOf(std::max(batch.entries(), waiting)));
  }
  for (const RowBatch<T>& batch : batches) {
    if (batch.entries() == 0) continue;
    int bits = 1;
    while (bits < 32 && (batch.keys_end - 1) >> bits > 0) ++bits;
    std::size_t bytes = batch.sort_room_bytes;
    device->Note(Sort(batch.entries(), bits, batch.unsorted_keys, batch.keys,
                      batch.unsorted_positions, batch.positions,
                      batch.sort_room, &bytes, device->stream()));
    int64_t columns = 1;
    for (int i = 0; i < batch.count; ++i) {
      if (batch.entries_of(i) <= kLongSegment) continue;
      columns = std::max(columns, batch.tables[i].width);
    }
    constexpr int64_t kColumns = SumLongRowsWork<T>::kColumns;
    device->RunStages(
        SumLongRowsWork<T>{batch, (columns + kColumns - 1) / kColumns, report});
  }
}

template <typename T>
void MarkWaiting(const RowBatch<T>& batch, bool lazy, GpuDevice* device) {
  device->Run(MarkWaitingWork<T>{batch, lazy},
              std::max<int64_t>(BlocksCatchingUp(batch), batch.count));
}

template <typename T>
const char* MergeSlicesGpu(const std::vector<SlicesToMerge>& slices,
                           Refusal* report, const GpuQueue& queue) {
  GpuDevice device(queue.stream);
  std::vector<RowTable<T>> tables;
  for (const SlicesToMerge& one : slices) tables.push_back({one});
  const RowOptions how = {/*sparse=*/true, /*lazy=*/true};
  const auto batches =
      PlanRows(tables, how, /*warp_a_row=*/false, sizeof(GpuStepHeader), queue);
  device.Clear(batches[0].header, sizeof(GpuStepHeader));
  SortAndSum(batches, how, report, &device);
  for (const RowBatch<T>& batch : batches) {
    if (batch.entries() == 0) continue;
    device.Run(MarkSegmentsWork<T>{batch}, BlocksOf(batch.entries()));
    std::size_t bytes = batch.sort_room_bytes;
    device.Note(AddUp(batch.entries(), batch.counts, batch.sort_room, &bytes,
                      queue.stream));
    device.Run<4>(WriteMergedWork<T>{batch}, batch.blocks(Rows::kOccurring));
  }
  return device.error();
}

#define TF_OPT_INSTANTIATE(T)                                                  \
  template const char* MeasureGradientsGpu<T>(                                 \
      const std::vector<MeasuredTensor<T>>&, const MeasureArguments&,          \
      const GpuQueue&);                                                        \
  template std::vector<RowBatch<T>> PlanRows<T>(std::vector<RowTable<T>>,      \
                                                const RowOptions&, bool,       \
                                                std::size_t, const GpuQueue&); \
  template void SortAndSum<T>(const std::vector<RowBatch<T>>&,                 \
                              const RowOptions&, Refusal*, GpuDevice*);        \
  template void MarkWaiting<T>(const RowBatch<T>&, bool, GpuDevice*);          \
  template const char* MergeSlicesGpu<T>(const std::vector<SlicesToMerge>&,    \
                                         Refusal*, const GpuQueue&)
TF_OPT_INSTANTIATE(Half);
TF_OPT_INSTANTIATE(BFloat16);
TF_OPT_INSTANTIATE(float);
TF_OPT_INSTANTIATE(double);

}  // namespace tf_opt
