#include <cuda_runtime.h>

#include "tf_opt/cc/engines/gpu/dense_gpu_launch.h"

namespace tf_opt {

const char* CopyOnGpu(void* to, const void* from, std::size_t bytes,
                      void* stream) {
  const cudaError_t error =
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                      static_cast<cudaStream_t>(stream));
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace tf_opt
