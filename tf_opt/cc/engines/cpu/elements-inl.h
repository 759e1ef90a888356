// Loops over the elements of a block, for one instruction set. The same rules
// hold as in range_loops-inl.h.
#ifndef TF_OPT_CC_ENGINES_CPU_ELEMENTS_INL_H_
#define TF_OPT_CC_ENGINES_CPU_ELEMENTS_INL_H_

#if !defined(TF_OPT_CPU_TARGET)
#error "TF_OPT_CPU_TARGET must name the target's namespace"
#endif

#include <cstdint>

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// Number of elements that are copied, converted or prefetched at a time: a few
// cache lines of one array, then of the next.
constexpr int64_t kBlockSize = 128;

// Runs body(i) for n independent elements. If there are kMost, as in a whole
// block, the compiler knows the count.
template <int kMost = kBlockSize, typename Body>
inline __attribute__((always_inline)) void ForElements(int n,
                                                       const Body& body) {
  if (n == kMost) {
#pragma GCC ivdep
    for (int i = 0; i < kMost; ++i) body(i);
  } else {
#pragma GCC ivdep
    for (int i = 0; i < n; ++i) body(i);
  }
}

}  // namespace
}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_ELEMENTS_INL_H_
