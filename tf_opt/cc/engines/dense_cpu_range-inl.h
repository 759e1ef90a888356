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

// Small enough for two float32 blocks to stay in the first-level cache beside
// the slots' lines.
constexpr int kBlockSize = 1024;

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
  for (int64_t start = begin; start < end; start += kBlockSize) {
    const int n =
        end - start < kBlockSize ? static_cast<int>(end - start) : kBlockSize;
    if constexpr (sizeof(T) == sizeof(V)) {
      ApplyBlock<V>(rule, n, tensor.variable + start, tensor.gradient + start,
                    tensor.slots[kIndices] + start...);
    } else {
      alignas(64) V variable[kBlockSize];
      alignas(64) V gradient[kBlockSize];
      WidenBlock(tensor.variable + start, n, variable);
      WidenBlock(tensor.gradient + start, n, gradient);
      ApplyBlock<V>(rule, n, variable, gradient,
                    tensor.slots[kIndices] + start...);
      NarrowBlock(variable, n, tensor.variable + start);
    }
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
