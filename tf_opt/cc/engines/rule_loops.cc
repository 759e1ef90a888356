// The rules of one optimizer, TF_OPT_RULE, for an engine. Compiled once for
// each optimizer and engine: with TF_OPT_CPU_TARGET for an instruction set of
// the CPU; without it for the GPU (by CUDA's compiler) or its emulation (by any
// other).
#include "tf_opt/cc/engines/rule_header.h"
#if defined(TF_OPT_CPU_TARGET)
#include "tf_opt/cc/engines/cpu/rule_loops-inl.h"
#include "tf_opt/cc/engines/rule_cases.h"
#else
#include "tf_opt/cc/engines/gpu/apply_on_gpu-inl.h"
#endif

namespace tf_opt {

#if defined(TF_OPT_CPU_TARGET)
namespace TF_OPT_CPU_TARGET {

template <typename Case>
struct Loops {
  using Rule = typename Case::Rule;

  decltype(&LoopsOf<Rule>) loops = LoopsOf<Rule>;
};

// An explicit instantiation emits the loops of all rules of an optimizer.
template <typename Description>
struct AllLoops {
  static constexpr RuleTableOf<Loops, Description> kAll{};
};

template struct AllLoops<TF_OPT_RULE>;

}  // namespace TF_OPT_CPU_TARGET
#else
template struct AllGpuRules<TF_OPT_RULE>;
template std::size_t GpuWorkspaceBytes<TF_OPT_RULE>(const GpuStep&);
template const char* ApplyOnGpu<TF_OPT_RULE>(const GpuStep&, void*, void*);
#endif

}  // namespace tf_opt
