// The dense engine for GPUs without the parts that need CUDA's compiler: how
// many tensors one launch takes, and the work of one thread. The kernel around
// it is in dense_cuda-inl.cuh; a host can test this file.
//
// The engine knows no formula and no framework. gpu_rules.h makes the rules in
// device memory.
#ifndef TF_OPT_CC_ENGINES_GPU_DENSE_GPU_H_
#define TF_OPT_CC_ENGINES_GPU_DENSE_GPU_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/gpu/framed_element.h"
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
// Vectors of each array that a thread requests before it needs the first.
constexpr int kGpuVectorsInFlight = 2;

// The tensors of one launch, passed by value, so that no memory must be filled
// first.
template <typename T, int kSlots>
struct GpuBatch {
  // The space that this struct's other members and the other arguments leave.
  static constexpr int kCapacity =
      (kGpuArgumentBytes - 128) /
      (sizeof(DenseTensor<T, kSlots>) + sizeof(int32_t));

  int count = 0;
  int first = 0;            // Index of tensors[0] among all tensors.
  int32_t ends[kCapacity];  // End of each tensor's tiles.
  DenseTensor<T, kSlots> tensors[kCapacity];

  // Each tile is for one block of threads.
  int32_t tiles() const { return count == 0 ? 0 : ends[count - 1]; }
};

// Splits all tensors into the fewest launches that can describe them.
template <typename T, int kSlots>
std::vector<GpuBatch<T, kSlots>> PlanGpuBatches(
    const std::vector<DenseTensor<T, kSlots>>& tensors) {
  using Batch = GpuBatch<T, kSlots>;
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (batches.empty() || batches.back().count == Batch::kCapacity) {
      batches.emplace_back();
      batches.back().first = static_cast<int>(i);
    }
    Batch& batch = batches.back();
    const int64_t tiles = CountTiles(tensors[i].size);
    batch.ends[batch.count] = batch.tiles() + static_cast<int32_t>(tiles);
    batch.tensors[batch.count] = tensors[i];
    ++batch.count;
  }
  return batches;
}

// One thread of one block. `Convert` widens and narrows 16-bit elements.
template <typename Convert, typename T, typename Rule>
class GpuThread {
 public:
  using V = ComputeType<T>;
  static constexpr int kSlots = Rule::kSlots;
  static constexpr int kPack = kGpuVectorBytes / sizeof(V);

  TF_OPT_RULE_INLINE static void Run(const GpuBatch<T, kSlots>& batch,
                                     const GpuRules<Rule>& rules, int32_t block,
                                     int thread, int threads) {
    if (!rules.writes()) return;
    RunTile(batch, rules, block, thread, threads,
            std::make_index_sequence<kSlots>());
  }

 private:
  using Element = FramedElement<GpuState<Convert, V>, T, Rule>;
  using State = GpuState<Convert, V>;

  // Slots have constant indices: an array indexed by a variable would be in
  // memory instead of registers.
  template <std::size_t... kIndices>
  TF_OPT_RULE_INLINE static void RunTile(
      const GpuBatch<T, kSlots>& batch, const GpuRules<Rule>& rules,
      int32_t block, int thread, int threads,
      std::index_sequence<kIndices...> indices) {
    const int i = TensorOfTile(batch.ends, batch.count, block);
    const int64_t tensor_size = batch.tensors[i].size;
    const FramedRule<Rule> rule = rules[batch.first + i];
    const Tile tile =
        TileOfTensor(i, tensor_size, block - (i == 0 ? 0 : batch.ends[i - 1]));
    const int64_t size = tile.size;
    const DenseTensor<T, kSlots> part = batch.tensors[i]
                                            .template AtRow<Rule>(rules.row())
                                            .Part(tile.begin, size);
    if (!rules.updates()) {
      // One element at a time: neighbouring threads take neighbours.
      for (int64_t k = thread; k < size; k += threads) {
        Element::AccumulateAt(rule, part, Convert::Widen(part.gradient()[k]),
                              k);
      }
      return;
    }
    const bool aligned =
        GpuPack<T, kPack>::IsAligned(part.variable()) &&
        GpuPack<T, kPack>::IsAligned(part.gradient()) &&
        (State::template IsAligned<kPack>(part.template slot<kIndices>()) &&
         ...) &&
        GpuPack<V, kPack>::IsAligned(part.accumulator()) &&
        GpuPack<V, kPack>::IsAligned(part.master_weight()) &&
        State::template IsAligned<kPack>(part.average());
    int64_t done = 0;
    if (aligned) {
      // Neighbouring threads take neighbouring vectors: first several of each
      // array at once, then the remaining whole ones.
      const int64_t row = int64_t{threads} * kPack;
      const int64_t rows = row * kGpuVectorsInFlight;
      for (; done + rows <= size; done += rows) {
        UpdatePacks<kGpuVectorsInFlight>(rule, part, done + thread * kPack, row,
                                         indices);
      }
      for (int64_t k = done + thread * kPack; k + kPack <= size; k += row) {
        UpdatePacks<1>(rule, part, k, row, indices);
      }
      done = size / kPack * kPack;
    }
    // The last few elements, or all if vectors would not be aligned.
    for (int64_t k = done + thread; k < size; k += threads) {
      Element::UpdateAt(rule, part, Convert::Widen(part.gradient()[k]), k);
    }
  }

  // Updates kCount packs of every array, the first at `at`, the others `row`
  // apart; all are loaded before the first is needed.
  template <int kCount, std::size_t... kIndices>
  TF_OPT_RULE_INLINE static void UpdatePacks(
      const FramedRule<Rule>& rule, const DenseTensor<T, kSlots>& tensor,
      int64_t at, int64_t row, std::index_sequence<kIndices...>) {
    GpuPack<T, kPack> variable[kCount];
    GpuPack<T, kPack> gradient[kCount];
    GpuPack<V, kPack> accumulator[kCount];
    GpuPack<V, kPack> master_weight[kCount];
    V slots[kSlots][kCount][kPack];
    V average[kCount][kPack] = {};
    for (int u = 0; u < kCount; ++u) {
      variable[u].Load(tensor.variable() + at + u * row);
      gradient[u].Load(tensor.gradient() + at + u * row);
      (State::Load(tensor.template slot<kIndices>(), at + u * row,
                   slots[kIndices][u]),
       ...);
      if (tensor.accumulator() != nullptr) {
        accumulator[u].Load(tensor.accumulator() + at + u * row);
      }
      if (tensor.master_weight() != nullptr) {
        master_weight[u].Load(tensor.master_weight() + at + u * row);
      }
      if (tensor.average().data != nullptr) {
        State::Load(tensor.average(), at + u * row, average[u]);
      }
    }
    for (int u = 0; u < kCount; ++u) {
      const int64_t element = tensor.first + at + u * row;
      for (int j = 0; j < kPack; ++j) {
        Element::Update(rule, tensor, element + j,
                        Convert::Widen(gradient[u].elements[j]),
                        &variable[u].elements[j], &master_weight[u].elements[j],
                        &accumulator[u].elements[j], &average[u][j],
                        &slots[kIndices][u][j]...);
      }
      variable[u].Store(tensor.variable() + at + u * row);
      (State::Store(
           tensor.template slot<kIndices>(), at + u * row, slots[kIndices][u],
           rule.template KeyOf<kFrameOperandCount + kIndices>(), element),
       ...);
      if (tensor.accumulator() != nullptr) {
        accumulator[u].Store(tensor.accumulator() + at + u * row);
      }
      if (tensor.master_weight() != nullptr) {
        master_weight[u].Store(tensor.master_weight() + at + u * row);
      }
      if (tensor.average().data != nullptr) {
        State::Store(tensor.average(), at + u * row, average[u],
                     rule.template KeyOf<kAverage>(), element);
      }
    }
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_DENSE_GPU_H_
