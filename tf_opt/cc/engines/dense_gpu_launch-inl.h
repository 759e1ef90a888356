// The definition of the dense and the sparse GPU engine: with CUDA's compiler
// the engines, with any other their emulation on the host, for tests.
#ifndef TF_OPT_CC_ENGINES_DENSE_GPU_LAUNCH_INL_H_
#define TF_OPT_CC_ENGINES_DENSE_GPU_LAUNCH_INL_H_

#if defined(__CUDACC__)
#include "tf_opt/cc/engines/dense_cuda-inl.cuh"
#include "tf_opt/cc/engines/sparse_cuda-inl.cuh"
#else
#include "tf_opt/cc/engines/dense_gpu_emulation-inl.h"
#include "tf_opt/cc/engines/sparse_gpu_emulation-inl.h"
#endif

// Instantiates the engines of Rule<V, ...> for variables of type T.
#define TF_OPT_INSTANTIATE_DENSE(T, Rule, ...)                               \
  template const char* ApplyDenseGpu<T, Rule<ComputeType<T>, __VA_ARGS__>>(  \
      const std::vector<                                                     \
          DenseTensor<T, Rule<ComputeType<T>, __VA_ARGS__>::kSlots>>&,       \
      const GpuInputsOf<Rule<ComputeType<T>, __VA_ARGS__>>&, void*, void*);  \
  template const char* ApplySparseGpu<T, Rule<ComputeType<T>, __VA_ARGS__>>( \
      const std::vector<                                                     \
          DenseTensor<T, Rule<ComputeType<T>, __VA_ARGS__>::kSlots>>&,       \
      const std::vector<GpuSlices>&,                                         \
      const GpuInputsOf<Rule<ComputeType<T>, __VA_ARGS__>>&, bool, void*,    \
      void*)

#endif  // TF_OPT_CC_ENGINES_DENSE_GPU_LAUNCH_INL_H_
