// The dense engine for GPUs, but for what only CUDA's compiler understands: how
// many tensors become a few launches, and what one thread does in them. The
// kernel around it is in dense_cuda.cuh; here is what a host can test.
//
// It knows no formula and no framework. The rules are in device memory, where
// gpu_rules.h made them.
#ifndef TF_OPT_CC_ENGINES_DENSE_GPU_H_
#define TF_OPT_CC_ENGINES_DENSE_GPU_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/gpu_rules.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Elements that one block of threads updates: few enough that a large tensor
// ends evenly, enough that finding the block's tensor costs nothing.
constexpr int64_t kGpuChunk = 8192;
// A thread loads and stores this much of a slot at a time, the widest there is,
// and as many elements of variable and gradient. (Of those in 16 bits that is
// half as much. Were it the same, a thread's slots would be two vectors, and
// every access of the threads together would touch only every other half of a
// sector: twice the accesses for the same bytes.)
constexpr int kGpuVectorBytes = 16;
// It asks for this many vectors of each array before it needs the first.
constexpr int kGpuVectorsInFlight = 2;
// What the arguments of a kernel may take, since CUDA 12.1.
constexpr std::size_t kGpuArgumentBytes = 32764;

// The tensors of one launch, passed by value: no memory to fill before it.
template <typename T, int kSlots>
struct GpuBatch {
  // What is left beside this struct's other members and the other arguments.
  static constexpr int kCapacity =
      (kGpuArgumentBytes - 128) /
      (sizeof(DenseTensor<T, kSlots>) + sizeof(int32_t));

  int count = 0;
  int first = 0;            // Which of all tensors tensors[0] is.
  int32_t ends[kCapacity];  // Behind the last chunk of each.
  DenseTensor<T, kSlots> tensors[kCapacity];

  int32_t chunks() const { return count == 0 ? 0 : ends[count - 1]; }
};

// As many launches as it takes to describe all tensors, and no more.
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
    const int64_t chunks = (tensors[i].size + kGpuChunk - 1) / kGpuChunk;
    batch.ends[batch.count] = batch.chunks() + static_cast<int32_t>(chunks);
    batch.tensors[batch.count] = tensors[i];
    ++batch.count;
  }
  return batches;
}

// kCount neighbours of an array, read and written at once.
template <typename E, int kCount>
struct GpuPack {
  struct alignas(sizeof(E) * kCount) Vector {
    uint32_t words[sizeof(E) * kCount / sizeof(uint32_t)];
  };

  union {
    E elements[kCount];
    Vector vector;
  };

  TF_OPT_RULE_INLINE void Load(const E* from) {
    vector = *reinterpret_cast<const Vector*>(from);
  }
  TF_OPT_RULE_INLINE void Store(E* to) const {
    *reinterpret_cast<Vector*>(to) = vector;
  }
  TF_OPT_RULE_INLINE static bool IsAligned(const E* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % sizeof(Vector) == 0;
  }
};

// One thread of one block. `Convert` widens and narrows 16-bit elements.
template <typename Convert, typename T, typename Rule>
class GpuThread {
 public:
  using V = ComputeType<T>;
  static constexpr int kSlots = Rule::kSlots;
  static constexpr int kPack = kGpuVectorBytes / sizeof(V);

  // `table_slot` is the slot that is a row of a table, or negative.
  TF_OPT_RULE_INLINE static void Run(const GpuBatch<T, kSlots>& batch,
                                     const GpuRules<Rule>& rules,
                                     int table_slot, int32_t block, int thread,
                                     int threads) {
    if (!rules.valid()) return;
    RunChunk(batch, rules, table_slot, block, thread, threads,
             std::make_index_sequence<kSlots>());
  }

 private:
  // Slots by constant indices throughout: an array that is indexed by a
  // variable would lie in memory, not in registers.
  template <std::size_t... kIndices>
  TF_OPT_RULE_INLINE static void RunChunk(
      const GpuBatch<T, kSlots>& batch, const GpuRules<Rule>& rules,
      int table_slot, int32_t block, int thread, int threads,
      std::index_sequence<kIndices...> indices) {
    const int i = FindTensor(batch, block);
    const int32_t chunk = block - (i == 0 ? 0 : batch.ends[i - 1]);
    const int64_t tensor_size = batch.tensors[i].size;
    const Rule rule = rules[batch.first + i];

    const int64_t begin = chunk * kGpuChunk;
    const int64_t left = tensor_size - begin;
    const int64_t size = left < kGpuChunk ? left : kGpuChunk;
    const DenseTensor<T, kSlots> part = {
        batch.tensors[i].variable + begin,
        batch.tensors[i].gradient + begin,
        {batch.tensors[i].slots[kIndices] + begin +
         (table_slot == static_cast<int>(kIndices) ? rules.row() * tensor_size
                                                   : 0)...},
        size};
    const bool aligned =
        GpuPack<T, kPack>::IsAligned(part.variable) &&
        GpuPack<T, kPack>::IsAligned(part.gradient) &&
        (GpuPack<V, kPack>::IsAligned(part.slots[kIndices]) && ...);
    int64_t done = 0;
    if (aligned) {
      // Neighbouring threads on neighbouring vectors: first several of each
      // array at once, then what is left of whole ones.
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
    // The last few elements, or all where a vector would not be aligned.
    for (int64_t k = done + thread; k < size; k += threads) {
      UpdateElement(rule, part, k, indices);
    }
  }

  // The tensor whose chunk this block is; empty tensors have none.
  TF_OPT_RULE_INLINE static int FindTensor(const GpuBatch<T, kSlots>& batch,
                                           int32_t block) {
    int low = 0, high = batch.count - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (batch.ends[middle] > block) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  // Updates kCount packs of every array, the first at `at`, the others `row`
  // apart; all are loaded before the first is needed.
  template <int kCount, std::size_t... kIndices>
  TF_OPT_RULE_INLINE static void UpdatePacks(
      const Rule& rule, const DenseTensor<T, kSlots>& tensor, int64_t at,
      int64_t row, std::index_sequence<kIndices...>) {
    GpuPack<T, kPack> variable[kCount];
    GpuPack<T, kPack> gradient[kCount];
    GpuPack<V, kPack> slots[kSlots][kCount];
    for (int u = 0; u < kCount; ++u) {
      variable[u].Load(tensor.variable + at + u * row);
      gradient[u].Load(tensor.gradient + at + u * row);
      (slots[kIndices][u].Load(tensor.slots[kIndices] + at + u * row), ...);
    }
    for (int u = 0; u < kCount; ++u) {
      for (int j = 0; j < kPack; ++j) {
        Update(rule, &variable[u].elements[j], gradient[u].elements[j],
               &slots[kIndices][u].elements[j]...);
      }
      variable[u].Store(tensor.variable + at + u * row);
      (slots[kIndices][u].Store(tensor.slots[kIndices] + at + u * row), ...);
    }
  }

  template <std::size_t... kIndices>
  TF_OPT_RULE_INLINE static void UpdateElement(
      const Rule& rule, const DenseTensor<T, kSlots>& tensor, int64_t at,
      std::index_sequence<kIndices...>) {
    Update(rule, &tensor.variable[at], tensor.gradient[at],
           &tensor.slots[kIndices][at]...);
  }

  template <typename... Slot>
  TF_OPT_RULE_INLINE static void Update(const Rule& rule, T* variable,
                                        const T& gradient, Slot*... slots) {
    V p = Convert::Widen(*variable);
    rule(p, Convert::Widen(gradient), *slots...);
    *variable = Convert::Narrow(p, T());
    ((*slots = CanonicalNan(*slots)), ...);
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_DENSE_GPU_H_
