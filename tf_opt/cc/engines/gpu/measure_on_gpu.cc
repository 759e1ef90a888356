// What the GPU engine does without a rule: it measures gradients, and copies.
// Compiled with CUDA's compiler for a GPU, with any other for its emulation.
#if defined(__CUDACC__)
#include "tf_opt/cc/engines/gpu/cuda-inl.cuh"
#else
#include <cstring>

#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"
#endif

namespace tf_opt {

const char* CopyOnGpu(void* to, const void* from, std::size_t bytes,
                      [[maybe_unused]] void* stream) {
#if defined(__CUDACC__)
  const cudaError_t error =
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                      static_cast<cudaStream_t>(stream));
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
#else
  std::memcpy(to, from, bytes);
  return nullptr;
#endif
}

#define TF_OPT_INSTANTIATE_MEASURE(T)                                    \
  template const char* MeasureGradientsGpu<T>(                           \
      const std::vector<MeasuredTensor<T>>&, const GpuMeasureArguments&, \
      void*, void*)
TF_OPT_INSTANTIATE_MEASURE(Half);
TF_OPT_INSTANTIATE_MEASURE(BFloat16);
TF_OPT_INSTANTIATE_MEASURE(float);
TF_OPT_INSTANTIATE_MEASURE(double);

}  // namespace tf_opt
