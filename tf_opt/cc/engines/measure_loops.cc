// Measures gradients: for the dense engines. Compiled once for each: with
// TF_OPT_CPU_TARGET for an instruction set of the CPU; without it for the GPU
// (by CUDA's compiler) or its emulation (by any other).
#if defined(TF_OPT_CPU_TARGET)
#include "tf_opt/cc/engines/cpu/measure_cpu_tile-inl.h"
#define TF_OPT_INSTANTIATE_MEASURE(T)              \
  template void TF_OPT_CPU_TARGET::MeasureTile<T>( \
      ComputeType<T>, const T*, const ComputeType<T>*, int64_t, Measure*)
#else
#if defined(__CUDACC__)
#include "tf_opt/cc/engines/gpu/cuda-inl.cuh"
#else
#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"
#endif
#define TF_OPT_INSTANTIATE_MEASURE(T)                                    \
  template const char* MeasureGradientsGpu<T>(                           \
      const std::vector<MeasuredTensor<T>>&, const GpuMeasureArguments&, \
      void*, void*)
#endif

namespace tf_opt {

TF_OPT_INSTANTIATE_MEASURE(Half);
TF_OPT_INSTANTIATE_MEASURE(BFloat16);
TF_OPT_INSTANTIATE_MEASURE(float);
TF_OPT_INSTANTIATE_MEASURE(double);

}  // namespace tf_opt
