// The instruction sets that the CPU engine is compiled for, and the choice
// among them at run time.
#ifndef TF_OPT_CC_ENGINES_CPU_CPU_TARGET_H_
#define TF_OPT_CC_ENGINES_CPU_CPU_TARGET_H_

#include <cstdint>
#include <vector>

namespace tf_opt {

enum class CpuTarget { kBaseline, kAvx2, kAvx512 };

const char* CpuTargetName(CpuTarget target);

// Targets that this processor and its operating system can run, best last.
std::vector<CpuTarget> SupportedCpuTargets();

// Returns the best supported target, decided once.
// TF_OPT_CPU_TARGET=baseline|avx2|avx512 limits it on x86-64; an unknown or
// unsupported name is ignored.
CpuTarget ChosenCpuTarget();

// How many elements ahead of a block the dense loops prefetch. 0: not at all,
// because this processor needs no prefetching. Tests and benchmarks assign to
// it.
extern int64_t prefetch_distance;

// What is compiled for a target is in the namespace of the target's name.
//
// TF_OPT_FOR_CPU_TARGETS(declare) is declare(name) for each of them, and
// TF_OPT_OF_CPU_TARGET(target, F) the function F of the target.
#if defined(__x86_64__)
#define TF_OPT_FOR_CPU_TARGETS(declare) \
  declare(baseline) declare(avx2) declare(avx512)
#define TF_OPT_OF_CPU_TARGET(target, ...)               \
  ((target) == CpuTarget::kAvx512 ? avx512::__VA_ARGS__ \
   : (target) == CpuTarget::kAvx2 ? avx2::__VA_ARGS__   \
                                  : baseline::__VA_ARGS__)
#else
#define TF_OPT_FOR_CPU_TARGETS(declare) declare(baseline)
#define TF_OPT_OF_CPU_TARGET(target, ...) (baseline::__VA_ARGS__)
#endif

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_CPU_TARGET_H_
