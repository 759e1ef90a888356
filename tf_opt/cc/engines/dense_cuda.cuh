// The dense CUDA engine: one rule over many tensors, in as few launches as it
// takes to describe them. Nothing is read back from the device, so a step can
// be captured in a CUDA graph.
//
// To be compiled with -fmad=false: then it gives the bits of the CPU engine,
// but for the powers in a step's scalars, which each computes in a library of
// its own. It costs no time, as the kernel waits for memory.
#ifndef TF_OPT_CC_ENGINES_DENSE_CUDA_CUH_
#define TF_OPT_CC_ENGINES_DENSE_CUDA_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/dense_gpu.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"

namespace tf_opt {

constexpr int kCudaThreads = 256;

struct CudaConvert {
  __device__ static float Widen(Half x) {
    return __half2float(__ushort_as_half(x.bits));
  }
  __device__ static float Widen(BFloat16 x) {
    return __bfloat162float(__ushort_as_bfloat16(x.bits));
  }
  __device__ static float Widen(float x) { return x; }
  __device__ static double Widen(double x) { return x; }

  __device__ static Half Narrow(float x, Half) {
    return {__half_as_ushort(__float2half_rn(x))};
  }
  __device__ static BFloat16 Narrow(float x, BFloat16) {
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
  }
  __device__ static float Narrow(float x, float) { return x; }
  __device__ static double Narrow(double x, double) { return x; }
};

// Computes what is the same for every element once, on the device. `Load`
// reads the hyperparameters from device memory.
template <typename Step, typename Load>
__global__ void ComputeStep(Load load, Step* step) {
  *step = Step(load());
}

template <typename T, typename Rule, typename Step>
__global__ void __launch_bounds__(kCudaThreads)
    ApplyGpuBatch(const __grid_constant__ GpuBatch<T, Rule::kSlots> batch,
                  const GpuScalars<Step> scalars) {
  GpuThread<CudaConvert, T, Rule>::Run(batch, scalars, blockIdx.x, threadIdx.x,
                                       blockDim.x);
}

// Applies Rule(*scalars.step, scalars.weight_decay[i]) to tensors[i], for all
// i, in the stream's order.
template <typename T, typename Rule, typename Step>
cudaError_t ApplyDenseCuda(
    const std::vector<DenseTensor<T, Rule::kSlots>>& tensors,
    const GpuScalars<Step>& scalars, cudaStream_t stream) {
  for (const auto& batch : PlanGpuBatches(tensors)) {
    if (batch.chunks() == 0) continue;
    ApplyGpuBatch<T, Rule, Step>
        <<<batch.chunks(), kCudaThreads, 0, stream>>>(batch, scalars);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_DENSE_CUDA_CUH_
