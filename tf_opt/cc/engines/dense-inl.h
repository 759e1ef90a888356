// Include this to instantiate an optimizer's rules. The file is compiled for
// each engine: with TF_OPT_CPU_TARGET for an instruction set of the CPU,
// without it for the GPU.
#ifndef TF_OPT_CC_ENGINES_DENSE_INL_H_
#define TF_OPT_CC_ENGINES_DENSE_INL_H_

#if defined(TF_OPT_CPU_TARGET)
#include "tf_opt/cc/engines/cpu/dense_cpu_range-inl.h"
#else
#include "tf_opt/cc/engines/gpu/dense_gpu_launch-inl.h"
#endif

// Instantiates the engine of Rule<V, ...> for every variable type.
#define TF_OPT_INSTANTIATE_RULE(Rule, ...)               \
  TF_OPT_INSTANTIATE_DENSE(Half, Rule, __VA_ARGS__);     \
  TF_OPT_INSTANTIATE_DENSE(BFloat16, Rule, __VA_ARGS__); \
  TF_OPT_INSTANTIATE_DENSE(float, Rule, __VA_ARGS__);    \
  TF_OPT_INSTANTIATE_DENSE(double, Rule, __VA_ARGS__)

#endif  // TF_OPT_CC_ENGINES_DENSE_INL_H_
