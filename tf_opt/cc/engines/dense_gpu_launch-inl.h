// What a file includes that instantiates the dense GPU engine: with CUDA's
// compiler the engine, with any other its emulation on the host, for tests.
#ifndef TF_OPT_CC_ENGINES_DENSE_GPU_LAUNCH_INL_H_
#define TF_OPT_CC_ENGINES_DENSE_GPU_LAUNCH_INL_H_

#if defined(__CUDACC__)
#include "tf_opt/cc/engines/dense_cuda-inl.cuh"
#else
#include "tf_opt/cc/engines/dense_gpu_emulation-inl.h"
#endif

// Instantiates ApplyDenseGpu of Rule<V, ...> for every variable type.
#define TF_OPT_INSTANTIATE_GPU_LAUNCH(T, Rule, ...)                         \
  template const char* ApplyDenseGpu<T, Rule<ComputeType<T>, __VA_ARGS__>>( \
      const std::vector<                                                    \
          DenseTensor<T, Rule<ComputeType<T>, __VA_ARGS__>::kSlots>>&,      \
      const GpuInputsOf<Rule<ComputeType<T>, __VA_ARGS__>>&, void*, void*)
#define TF_OPT_INSTANTIATE_GPU_LAUNCHES(Rule, ...)            \
  TF_OPT_INSTANTIATE_GPU_LAUNCH(Half, Rule, __VA_ARGS__);     \
  TF_OPT_INSTANTIATE_GPU_LAUNCH(BFloat16, Rule, __VA_ARGS__); \
  TF_OPT_INSTANTIATE_GPU_LAUNCH(float, Rule, __VA_ARGS__);    \
  TF_OPT_INSTANTIATE_GPU_LAUNCH(double, Rule, __VA_ARGS__)

#endif  // TF_OPT_CC_ENGINES_DENSE_GPU_LAUNCH_INL_H_
