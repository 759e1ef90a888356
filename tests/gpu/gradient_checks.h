// Checks of what the engines do with gradients without a rule: they merge and
// measure them.
#ifndef TF_OPT_TESTS_GPU_GRADIENT_CHECKS_H_
#define TF_OPT_TESTS_GPU_GRADIENT_CHECKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/device.h"
#include "tests/gpu/same_bytes.h"
#include "tf_opt/cc/engines/cpu/measure_cpu.h"
#include "tf_opt/cc/engines/cpu/merge_cpu.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/testing/row_gradient.h"
#include "tf_opt/cc/engines/tiles.h"

namespace tf_opt {

// Measures gradients; the CPU's are without the unused rows.
template <typename T>
bool MeasuresRight(const std::vector<MeasuredTensor<T>>& tensors,
                   const std::vector<MeasuredTensor<T>>& on_cpu,
                   bool is_enabled = true) {
  auto* const scale = arena.New<double>(1);
  auto* const enabled = arena.New<bool>(1);
  auto* const squares = arena.New<double>(tensors.size());
  auto* const finite = arena.New<bool>(tensors.size());
  *scale = 0.3;
  *enabled = is_enabled;
  const MeasureArguments arguments = {scale, enabled, squares, finite};
  const auto on_host = [&](const CpuWay& way) {
    MeasureGradients<T>(on_cpu, arguments, way.target, way.threads);
  };
  return WriteTheSame(on_host, [&](const GpuQueue& queue) {
    return MeasureGradientsGpu<T>(tensors, arguments, queue);
  });
}

// Measures tensors, with accumulators or without.
template <typename T>
void CheckMeasures(E element) {
  // Around lanes, what is added of them at a time, and tiles; more tiles than
  // lanes; empty ones first, in between and last.
  const std::vector<int64_t> few(
      {0, 1, 3, 127, 128, 129, 0, 511, 512, 513, 1025, kTileSize - 1, kTileSize,
       kTileSize + 1, 3 * kTileSize + 5, 130 * kTileSize + 131, 31, 0});
  std::vector<int64_t> many(3000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i % 37;
  bool right = true;
  for (const auto& sizes : {few, many}) {
    for (int bits = 0; bits < 16; ++bits) {
      const bool misaligned = bits & kMisaligned, special = bits & kSpecial,
                 accumulated = bits & 4, enabled = !(bits & 8);
      arena.Clear();
      std::vector<MeasuredTensor<T>> tensors;
      for (const int64_t size : sizes) {
        auto* const gradient = arena.New<T>(size, misaligned);
        auto* const accumulator =
            arena.New<ComputeType<T>>(accumulated ? size : 0, misaligned);
        tensors.push_back({gradient, accumulator, size});
        for (int64_t at = 0; at < size; ++at) {
          Put(1 + Unit(at), element, gradient, at, special && Any(4) == 0);
          if (accumulator == nullptr) continue;
          Put(Unit(at), element == E::kDouble ? E::kDouble : E::kFloat,
              accumulator, at, special && Any(4) == 0);
        }
      }
      right = MeasuresRight<T>(tensors, tensors, enabled) && right;
    }
  }
  Report("measures, type " + std::to_string(static_cast<int>(element)), right);
}

// Merges gradients, and measures the merged ones beside accumulated ones, if
// there can be as many of these.
template <typename T>
bool MergesRight(const Tables& tables, E element, unsigned bits) {
  arena.Clear();
  std::vector<RowGradient> gradients;
  std::vector<SlicesToMerge> slices;
  std::vector<MeasuredTensor<T>> measured, on_cpu;
  const bool measures = bits & kWideIds && tables[0].rows < INT32_MAX;
  for (const Table& table : tables) {
    RowGradient& gradient =
        gradients.emplace_back(table, element, bits, &arena);
    gradient.Fill(1);
    slices.push_back({gradient.slices});
    void* const ids = gradient.NewIds(table.entries(), &arena);
    T* const sums = arena.New<T>(table.entries() * table.width);
    slices.back().merged_ids = ids;
    slices.back().merged_values = sums;
    const int64_t size = measures ? table.size() : 0;
    auto* const accumulator = arena.New<ComputeType<T>>(size);
    for (int64_t k = 0; k < size; ++k) accumulator[k] = Unit(k);
    measured.push_back(
        {sums,
         accumulator,
         size,
         {static_cast<int64_t*>(ids), table.entries(), table.width}});
  }
  auto* const report = arena.New<Refusal>(1);
  *report = {};

  // The rows and their sums, and then nothing; refused rows, if one is wrong.
  on_cpu = measured;
  const auto write = [&](const CpuWay& way, bool found) {
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const auto gradient = gradients[i].ForCpu();
      const auto firsts =
          found ? FirstEntries(gradient) : std::vector<int64_t>();
      const int64_t count = firsts.size(), width = tables[i].width;
      auto* const sums = static_cast<T*>(slices[i].merged_values);
      for (int64_t k = 0; k < tables[i].entries(); ++k) {
        slices[i].WriteId(k < count ? gradient.entries[firsts[k]].row
                          : found   ? slices[i].unused()
                                    : slices[i].refused(),
                          k, slices[i].merged_ids);
      }
      std::fill(sums + count * width, sums + tables[i].entries() * width, T());
      SumRows<T>({{gradient, firsts, sums}}, way.target, way.threads);
      on_cpu[i].rows.count = count;
    }
  };
  const auto merge = [&](const GpuQueue& queue) {
    return MergeSlicesGpu<T>(slices, report, queue);
  };
  const auto find = [&](const CpuWay& way) { write(way, true); };
  bool right = WriteTheSame(find, merge);
  if (measures) right = MeasuresRight<T>(measured, on_cpu) && right;

  const int last = static_cast<int>(tables.size()) - 1;
  gradients[last].SetRow(0, -5);
  const auto refuse = [&](const CpuWay& way) {
    *report = slices[last].RefusalOf(last, 0);
    write(way, false);
  };
  return WriteTheSame(refuse, merge) && right;
}

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_GRADIENT_CHECKS_H_
