#include "tf_opt/cc/engines/cpu/loops.h"

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tf_opt {
namespace {

#if defined(__x86_64__)
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

CpuTarget Choose() {
  const std::vector<CpuTarget> supported = SupportedCpuTargets();
  if (const char* wanted = std::getenv("TF_OPT_CPU_TARGET")) {
    for (CpuTarget target : supported) {
      if (std::strcmp(wanted, CpuTargetName(target)) == 0) return target;
    }
  }
  return supported.back();
}

// AMD's family 25 (Zen 3 and 4) prefetches the loops' streams by itself, and
// software prefetches take a tenth to a quarter of its bandwidth. Other
// processors stop at page boundaries and lag behind eight streams: there the
// loops are up to a fifth slower without, and a quarter or four times this
// distance costs a few percent.
int64_t ChoosePrefetchDistance() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  __get_cpuid(0, &eax, &ebx, &ecx, &edx);
  const bool is_amd = ebx == signature_AMD_ebx && ecx == signature_AMD_ecx;
  __get_cpuid(1, &eax, &ebx, &ecx, &edx);
  // The base family, at most 15, and the extended family.
  const unsigned family = (eax >> 8 & 0xf) + (eax >> 20 & 0xff);
  if (is_amd && family == 25) return 0;
#endif
  return 512;
}

}  // namespace

int64_t prefetch_distance = ChoosePrefetchDistance();

const char* CpuTargetName(CpuTarget target) {
#if defined(__aarch64__)
  // Every such processor has it: the compiler uses it without being told.
  return "neon";
#else
  constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};
  return kNames[static_cast<int>(target)];
#endif
}

std::vector<CpuTarget> SupportedCpuTargets() {
  std::vector<CpuTarget> supported = {CpuTarget::kBaseline};
#if defined(__x86_64__)
  // __builtin_cpu_supports also asks whether the operating system saves the
  // wide registers.
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      HasF16c()) {
    supported.push_back(CpuTarget::kAvx2);
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      supported.push_back(CpuTarget::kAvx512);
    }
  }
#endif
  return supported;
}

CpuTarget ChosenCpuTarget() {
  static const CpuTarget chosen = Choose();
  return chosen;
}

}  // namespace tf_opt

// What Python asks the loaded library, through ctypes.
extern "C" const char* TfOptCpuTarget() {
  return tf_opt::CpuTargetName(tf_opt::ChosenCpuTarget());
}
