// The dense engine for GPUs without the parts that need CUDA's compiler: the
// work of one thread. The kernel around it is in cuda-inl.cuh; a host can test
// this file.
//
// The engine knows no formula and no framework. gpu_rules.h makes the rules in
// device memory.
#ifndef TF_OPT_CC_ENGINES_GPU_DENSE_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_DENSE_GPU_H_

#include <cstdint>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/gpu/framed_elements.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/gpu_pack.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/gpu/gpu_state.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/tiles.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Bytes of a slot that a thread loads and stores at a time, the most that is
// possible, and as many elements of variable and gradient. (For 16-bit
// variables that is half as many bytes. With as many bytes, a thread's slots
// would be two vectors, and every access of a warp would touch every other half
// of a sector: twice the accesses for the same bytes.)
constexpr int kGpuVectorBytes = 16;

// One thread of one block. `Convert` widens and narrows 16-bit elements.
template <typename Convert, typename T, typename Rule>
class GpuThread {
 public:
  using V = ComputeType<T>;
  static constexpr int kPack = kGpuVectorBytes / sizeof(V);

  TF_OPT_RULE_INLINE static void Run(const GpuBatch<DenseTensor<T>>& batch,
                                     const GpuRules<Rule>& rules, int32_t block,
                                     int thread, int threads) {
    if (!rules.writes()) return;
    const Tile tile = batch.tile(block);
    const int64_t size = tile.size;
    const FramedRule<Rule> rule = rules[batch.first + tile.tensor];
    const DenseTensor<T> part = batch.tensors[tile.tensor]
                                    .AtRow(kTablesOf<Rule>, rules.row())
                                    .Part(tile.begin, size);
    if (!rules.updates()) {
      // One element at a time: neighbouring threads take neighbours.
      for (int64_t k = thread; k < size; k += threads) {
        Elements::AccumulateAt(rule, part, k);
      }
      return;
    }
    bool aligned = GpuPack<T, kPack>::IsAligned(part.variable()) &&
                   GpuPack<T, kPack>::IsAligned(part.gradient()) &&
                   GpuPack<V, kPack>::IsAligned(part.accumulator()) &&
                   GpuPack<V, kPack>::IsAligned(part.master_weight()) &&
                   State::template IsAligned<kPack>(part.average());
    TF_OPT_UNROLL
    for (int k = 0; k < Rule::kSlots; ++k) {
      aligned = aligned && State::template IsAligned<kPack>(part.slot(k));
    }
    int64_t done = 0;
    if (aligned) {
      // Neighbouring threads take neighbouring vectors.
      done = size / kPack * kPack;
      for (int64_t k = thread * kPack; k < done; k += threads * kPack) {
        Elements::template UpdatePack<kPack>(rule, part, k);
      }
    }
    // The last few elements, or all if vectors would not be aligned.
    for (int64_t k = done + thread; k < size; k += threads) {
      Elements::UpdateAt(rule, part, k);
    }
  }

 private:
  using Elements = FramedElements<Convert, T, Rule>;
  using State = GpuState<Convert, V>;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_DENSE_GPU_H_
