// Include this to instantiate measuring. The file is compiled for each engine:
// with TF_OPT_CPU_TARGET for an instruction set of the CPU; without it for the
// GPU (by CUDA's compiler) or its emulation (by any other).
#ifndef TF_OPT_CC_ENGINES_MEASURE_INL_H_
#define TF_OPT_CC_ENGINES_MEASURE_INL_H_

#if defined(TF_OPT_CPU_TARGET)
#include "tf_opt/cc/engines/cpu/measure_cpu_tile-inl.h"
#else

#if defined(__CUDACC__)
#include "tf_opt/cc/engines/gpu/cuda-inl.cuh"
#else
#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"
#endif

// Instantiates the measuring of gradients of type T.
#define TF_OPT_INSTANTIATE_MEASURE(T)                                    \
  template const char* MeasureGradientsGpu<T>(                           \
      const std::vector<MeasuredTensor<T>>&, const GpuMeasureArguments&, \
      void*, void*)

#endif

#endif  // TF_OPT_CC_ENGINES_MEASURE_INL_H_
