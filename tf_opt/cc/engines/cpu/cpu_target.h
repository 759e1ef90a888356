// The instruction sets that the CPU engine is compiled for, and the choice
// among them at run time.
#ifndef TF_OPT_CC_ENGINES_CPU_CPU_TARGET_H_
#define TF_OPT_CC_ENGINES_CPU_CPU_TARGET_H_

#include <vector>

namespace tf_opt {

enum class CpuTarget { kBaseline, kAvx2, kAvx512 };

const char* CpuTargetName(CpuTarget target);

// Targets that this processor and its operating system can run, best last.
std::vector<CpuTarget> SupportedCpuTargets();

// Returns the best supported target, decided once.
// TF_OPT_CPU_TARGET=baseline|avx2|avx512 limits it; an unknown or unsupported
// name is ignored.
CpuTarget ChosenCpuTarget();

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_CPU_TARGET_H_
