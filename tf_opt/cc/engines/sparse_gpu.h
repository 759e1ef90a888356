// The sparse engine for GPUs, but for what only CUDA's compiler understands: a
// warp sums the entries of a row, in their order, and applies a rule to it.
#ifndef TF_OPT_CC_ENGINES_SPARSE_GPU_H_
#define TF_OPT_CC_ENGINES_SPARSE_GPU_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/framed_element.h"
#include "tf_opt/cc/engines/gpu_pack.h"
#include "tf_opt/cc/engines/gpu_row_sum.h"
#include "tf_opt/cc/engines/gpu_rules.h"
#include "tf_opt/cc/engines/gpu_slices.h"
#include "tf_opt/cc/engines/gpu_state.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// The tables of one launch, passed by value. Their gradients are the values.
template <typename T, int kSlots>
struct GpuTableBatch {
  GpuTableBatch(const GpuSliceBatch& slices,
                const std::vector<DenseTensor<T, kSlots>>& all)
      : slices(slices) {
    std::copy_n(all.begin() + slices.first, slices.count, tables);
  }

  GpuSliceBatch slices;
  DenseTensor<T, kSlots> tables[kGpuTables];
};

// One thread of a warp. `Convert` widens and narrows 16-bit elements.
template <typename Convert, typename T, typename Rule>
class GpuRowThread {
 public:
  using V = ComputeType<T>;
  using Batch = GpuTableBatch<T, Rule::kSlots>;

  static_assert(sizeof(Batch) + sizeof(GpuRules<Rule>) +
                        sizeof(GpuSortedEntries) + sizeof(bool) <=
                    kGpuArgumentBytes - 64,
                "a launch must be told of kGpuTables tables");

  // How many warps have something to do: of each row or of each entry one.
  TF_OPT_HOST_DEVICE static int64_t Warps(const Batch& batch, bool lazy) {
    return lazy ? batch.slices.entries() : batch.slices.no_key();
  }

  TF_OPT_RULE_INLINE static void Run(const Batch& batch,
                                     const GpuSortedEntries& entries,
                                     const GpuRules<Rule>& rules, bool lazy,
                                     int64_t warp, int thread) {
    if (!rules.writes()) return;
    if (!lazy) {
      RunRow(batch, entries, rules, entries.Find(warp), warp, thread);
    } else if (entries.BeginsRow(warp)) {
      RunRow(batch, entries, rules, warp, entries.keys[warp], thread);
    }
  }

 private:
  // To the row with this key, of which entry `k` is the first, if it has any.
  TF_OPT_RULE_INLINE static void RunRow(const Batch& batch,
                                        const GpuSortedEntries& entries,
                                        const GpuRules<Rule>& rules, int64_t k,
                                        int64_t key, int thread) {
    using Element = FramedElement<GpuState<Convert, V>, T, Rule>;
    const int i = TensorOfTile(batch.slices.key_ends, batch.slices.count, key);
    const FramedRule<Rule> rule = rules[batch.slices.first + i];
    const GpuSlices& slices = batch.slices.slices[i];
    const int64_t width = slices.width;
    const DenseTensor<T, Rule::kSlots>& table = batch.tables[i];
    const GpuRowSum<Convert, T> sum = {table.gradient(), slices, entries, k,
                                       key};
    const DenseTensor<T, Rule::kSlots> row =
        table.template AtRow<Rule>(rules.row())
            .Part((key - batch.slices.key_begin(i)) * width, width);
    const bool updates = rules.updates();
    for (int64_t column = thread; column < width; column += kWarpThreads) {
      const V gradient = sum.At(column);
      if (updates) {
        Element::UpdateAt(rule, row, gradient, column);
      } else {
        Element::AccumulateAt(rule, row, gradient, column);
      }
    }
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_SPARSE_GPU_H_
