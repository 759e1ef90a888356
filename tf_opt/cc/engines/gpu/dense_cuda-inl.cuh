// The kernels of the dense GPU engine.
//
// To be compiled with -fmad=false: then it gives the bits of the CPU engine,
// but for subnormal results, which the CPU flushes to zero. It costs no time,
// as the kernel waits for memory.
#ifndef TF_OPT_CC_ENGINES_GPU_DENSE_CUDA_INL_CUH_
#define TF_OPT_CC_ENGINES_GPU_DENSE_CUDA_INL_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/gpu/cuda-inl.cuh"
#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/dense_gpu_launch.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/storage_types.h"

namespace tf_opt {

template <typename Rule>
__global__ void MakeGpuRules(const __grid_constant__ GpuInputsOf<Rule> inputs,
                             GpuRules<Rule> rules, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) rules.Compute(inputs, i);
}

template <typename T, typename Rule>
__global__ void __launch_bounds__(kCudaThreads)
    ApplyGpuBatch(const __grid_constant__ GpuBatch<T, Rule::kSlots> batch,
                  GpuRules<Rule> rules) {
  GpuThread<CudaConvert, T, Rule>::Run(batch, rules, blockIdx.x, threadIdx.x,
                                       blockDim.x);
}

template <typename T, typename Rule>
const char* ApplyDenseGpu(
    const std::vector<DenseTensor<T, Rule::kSlots>>& tensors,
    const GpuInputsOf<Rule>& inputs, void* workspace, void* stream) {
  if (tensors.empty()) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const GpuRules<Rule> rules(workspace);
  MakeGpuRules<Rule>
      <<<CudaBlocks(tensors.size()), kCudaThreads, 0, cuda_stream>>>(
          inputs, rules, tensors.size());
  if (const char* error = CudaLaunchError()) return error;
  for (const auto& batch : PlanGpuBatches(tensors)) {
    if (batch.tiles() == 0) continue;
    ApplyGpuBatch<T, Rule>
        <<<batch.tiles(), kCudaThreads, 0, cuda_stream>>>(batch, rules);
    if (const char* error = CudaLaunchError()) return error;
  }
  return nullptr;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_DENSE_CUDA_INL_CUH_
