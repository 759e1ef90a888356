// Include this to instantiate an optimizer's rules. The file is compiled for
// each engine: with TF_OPT_CPU_TARGET for an instruction set of the CPU;
// without it for the GPU (by CUDA's compiler) or its emulation (by any other).
#ifndef TF_OPT_CC_ENGINES_DENSE_INL_H_
#define TF_OPT_CC_ENGINES_DENSE_INL_H_

#if defined(TF_OPT_CPU_TARGET)
#include "tf_opt/cc/engines/cpu/dense_cpu_range-inl.h"
#else

#if defined(__CUDACC__)
#include "tf_opt/cc/engines/gpu/cuda-inl.cuh"
#else
#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"
#endif

// Instantiates the engine of Rule<V, ...> for variables of type T.
#define TF_OPT_INSTANTIATE_DENSE(T, Rule, ...)                              \
  template const char* ApplyDenseGpu<T, Rule<ComputeType<T>, __VA_ARGS__>>( \
      const std::vector<                                                    \
          DenseTensor<T, Rule<ComputeType<T>, __VA_ARGS__>::kSlots>>&,      \
      const GpuInputsOf<Rule<ComputeType<T>, __VA_ARGS__>>&, void*, void*)

#endif

// Instantiates the engine of Rule<V, ...> for every variable type.
#define TF_OPT_INSTANTIATE_RULE(Rule, ...)               \
  TF_OPT_INSTANTIATE_DENSE(Half, Rule, __VA_ARGS__);     \
  TF_OPT_INSTANTIATE_DENSE(BFloat16, Rule, __VA_ARGS__); \
  TF_OPT_INSTANTIATE_DENSE(float, Rule, __VA_ARGS__);    \
  TF_OPT_INSTANTIATE_DENSE(double, Rule, __VA_ARGS__)

#endif  // TF_OPT_CC_ENGINES_DENSE_INL_H_
