// The definition of the dense GPU engine: with CUDA's compiler the engine, with
// any other its emulation on the host, for tests.
#ifndef TF_OPT_CC_ENGINES_GPU_DENSE_GPU_LAUNCH_INL_H_
#define TF_OPT_CC_ENGINES_GPU_DENSE_GPU_LAUNCH_INL_H_

#if defined(__CUDACC__)
#include "tf_opt/cc/engines/gpu/dense_cuda-inl.cuh"
#else
#include "tf_opt/cc/engines/gpu/dense_gpu_emulation-inl.h"
#endif

// Instantiates the engine of Rule<V, ...> for variables of type T.
#define TF_OPT_INSTANTIATE_DENSE(T, Rule, ...)                              \
  template const char* ApplyDenseGpu<T, Rule<ComputeType<T>, __VA_ARGS__>>( \
      const std::vector<                                                    \
          DenseTensor<T, Rule<ComputeType<T>, __VA_ARGS__>::kSlots>>&,      \
      const GpuInputsOf<Rule<ComputeType<T>, __VA_ARGS__>>&, void*, void*)

#endif  // TF_OPT_CC_ENGINES_GPU_DENSE_GPU_LAUNCH_INL_H_
