// What all kernels for GPUs share that only CUDA's compiler understands.
#ifndef TF_OPT_CC_ENGINES_GPU_CUDA_INL_CUH_
#define TF_OPT_CC_ENGINES_GPU_CUDA_INL_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "tf_opt/cc/engines/gpu/gpu_pack.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

constexpr int kCudaThreads = 256;
constexpr int kCudaWarps = kCudaThreads / kWarpThreads;

// Blocks for so many threads.
inline int CudaBlocks(int64_t threads) {
  return static_cast<int>((threads + kCudaThreads - 1) / kCudaThreads);
}

inline int CudaBlocksOfWarps(int64_t warps) {
  return CudaBlocks(warps * kWarpThreads);
}

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
    // The conversions have a NaN of their own.
    if (x != x) return {kHalfNan};
    return {__half_as_ushort(__float2half_rn(x))};
  }
  __device__ static BFloat16 Narrow(float x, BFloat16) {
    if (x != x) return {kBFloat16Nan};
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
  }
  __device__ static float Narrow(float x, float) { return CanonicalNan(x); }
  __device__ static double Narrow(double x, double) { return CanonicalNan(x); }
};

// What went wrong with the last launch.
inline const char* CudaLaunchError() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_CUDA_INL_CUH_
