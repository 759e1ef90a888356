// What the GPU engine does without a rule: it measures and merges gradients,
// and copies. Compiled with CUDA's compiler for a GPU, with any other for its
// emulation.
#include <cstddef>
#include <cstring>
#include <vector>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/measure_gpu.h"
#if defined(__CUDACC__)
#include "tf_opt/cc/engines/gpu/cuda-inl.cuh"
#else
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

template <typename T>
const char* MeasureGradientsGpu(
    const std::vector<GpuMeasuredTensor<T>>& tensors,
    const GpuMeasureArguments& arguments, void* workspace, void* stream) {
  GpuDevice device(stream);
  const auto tiles = static_cast<Measure*>(workspace);
  for (const auto& batch : PlanGpuBatches(tensors)) {
    device.RunWarps(MeasureTilesWork<GpuDevice, T>(batch, arguments, tiles),
                    batch.tiles());
    device.RunWarps(AddTilesWork<T>(batch, arguments, tiles), batch.count);
  }
  return device.error();
}

#define TF_OPT_INSTANTIATE(T)                                               \
  template const char* MeasureGradientsGpu<T>(                              \
      const std::vector<GpuMeasuredTensor<T>>&, const GpuMeasureArguments&, \
      void*, void*)
TF_OPT_INSTANTIATE(Half);
TF_OPT_INSTANTIATE(BFloat16);
TF_OPT_INSTANTIATE(float);
TF_OPT_INSTANTIATE(double);

}  // namespace tf_opt
