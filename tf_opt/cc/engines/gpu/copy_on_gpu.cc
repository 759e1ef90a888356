// Compiled with CUDA's headers, or for the emulation.
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"

#if defined(TF_OPT_EMULATES_GPU)
#include <cstring>
#else
#include <cuda_runtime.h>
#endif

namespace tf_opt {

const char* CopyOnGpu(void* to, const void* from, std::size_t bytes,
                      [[maybe_unused]] void* stream) {
#if defined(TF_OPT_EMULATES_GPU)
  std::memcpy(to, from, bytes);
  return nullptr;
#else
  const cudaError_t error =
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                      static_cast<cudaStream_t>(stream));
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
#endif
}

}  // namespace tf_opt
