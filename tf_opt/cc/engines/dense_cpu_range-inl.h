// The dense CPU engine's inner loop, for one instruction set.
//
// A file that instantiates it (kernels/*_dense_cpu_target.cc) is compiled once
// per target with TF_OPT_CPU_TARGET defined as that target's namespace. Such a
// translation unit must emit no function that another one emits too: the
// linker keeps one copy, perhaps the one this machine cannot run. Hence the
// namespace, the always-inline rules and no standard library calls in here.
//
// The flags matter as much as the code (tf_opt/cc/engines/BUILD): without
// -fno-math-errno and -fno-trapping-math the square root and the maximum are
// not vectorized; -ffp-contract=off makes every target, every vector lane and
// every loop tail compute bit for bit the same.
#if !defined(TF_OPT_CPU_TARGET)
#error "TF_OPT_CPU_TARGET must name the target's namespace"
#endif

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/float_conversion-inl.h"
#include "tf_opt/cc/engines/storage_types.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// Elements that are loaded, updated and stored at a time: a few cache lines of
// one array, then of the next. Arrays whose sizes are powers of two fall on the
// same places of the caches, and touching a line of each in every iteration can
// cost a quarter more time than going through them like this.
constexpr int kBlockSize = 64;

template <typename V>
inline void WidenBlock(const V* source, int n, V* target) {
  __builtin_memcpy(target, source, n * sizeof(V));
}

template <typename V>
inline void NarrowBlock(const V* source, int n, V* target) {
  __builtin_memcpy(target, source, n * sizeof(V));
}

template <typename V, typename Rule, typename... Slot>
inline __attribute__((always_inline)) void ApplyBlock(
    const Rule rule, int n, V* __restrict p, const V* __restrict g,
    Slot* __restrict... slots) {
  for (int i = 0; i < n; ++i) rule(p[i], g[i], slots[i]...);
}

template <typename T, typename Rule, std::size_t... kIndices>
inline __attribute__((always_inline)) void ApplyBlocks(
    const Rule& rule, const DenseTensor<T, Rule::kSlots>& tensor, int64_t begin,
    int64_t end, std::index_sequence<kIndices...>) {
  using V = ComputeType<T>;
  alignas(64) V variable[kBlockSize];
  alignas(64) V gradient[kBlockSize];
  alignas(64) V slots[Rule::kSlots][kBlockSize];
  for (int64_t start = begin; start < end; start += kBlockSize) {
    const int n =
        end - start < kBlockSize ? static_cast<int>(end - start) : kBlockSize;
    WidenBlock(tensor.variable + start, n, variable);
    WidenBlock(tensor.gradient + start, n, gradient);
    (WidenBlock(tensor.slots[kIndices] + start, n, slots[kIndices]), ...);
    ApplyBlock<V>(rule, n, variable, gradient, slots[kIndices]...);
    NarrowBlock(variable, n, tensor.variable + start);
    (NarrowBlock(slots[kIndices], n, tensor.slots[kIndices] + start), ...);
  }
}

}  // namespace

template <typename T, typename Rule>
void ApplyRange(const Rule& rule, const DenseTensor<T, Rule::kSlots>& tensor,
                int64_t begin, int64_t end) {
  ApplyBlocks<T>(rule, tensor, begin, end,
                 std::make_index_sequence<Rule::kSlots>());
}

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
