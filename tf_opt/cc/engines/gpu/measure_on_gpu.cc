// What the GPU engine does without a rule: it measures and merges gradients,
// and copies. Compiled with CUDA's compiler for a GPU, with any other for its
// emulation.
#include <cstddef>
#include <cstring>
#include <vector>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/measure_gpu.h"
#include "tf_opt/cc/engines/gpu/row_launches.h"
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

template <typename T>
RowPlan<T> PlanMerge(const std::vector<GpuSlices>& slices,
                     const std::vector<int64_t>& widths) {
  std::vector<RowTable<T>> tables(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    tables[i].tensor.operands[kGradient] = const_cast<void*>(slices[i].values);
    tables[i].slices = slices[i];
    tables[i].width = widths[i];
  }
  return RowPlan<T>(tables, /*warp_a_row=*/false, /*marks=*/false);
}

template <typename T>
std::size_t MergeWorkspaceBytes(const std::vector<GpuSlices>& slices,
                                const std::vector<int64_t>& widths) {
  return PlanMerge<T>(slices, widths).LayOut(nullptr);
}

template <typename T>
const char* MergeSlicesGpu(const std::vector<GpuSlices>& slices,
                           const std::vector<int64_t>& widths,
                           const std::vector<MergedOutput<T>>& outputs,
                           BadRow* report, void* workspace, void* stream) {
  GpuDevice device(stream);
  RowPlan<T> plan = PlanMerge<T>(slices, widths);
  plan.LayOut(workspace);
  MergeRows(outputs, report, &plan, &device);
  return device.error();
}

#define TF_OPT_INSTANTIATE(T)                                                \
  template const char* MeasureGradientsGpu<T>(                               \
      const std::vector<GpuMeasuredTensor<T>>&, const GpuMeasureArguments&,  \
      void*, void*);                                                         \
  template const char* MergeSlicesGpu<T>(                                    \
      const std::vector<GpuSlices>&, const std::vector<int64_t>&,            \
      const std::vector<MergedOutput<T>>&, BadRow*, void*, void*);           \
  template std::size_t MergeWorkspaceBytes<T>(const std::vector<GpuSlices>&, \
                                              const std::vector<int64_t>&)
TF_OPT_INSTANTIATE(Half);
TF_OPT_INSTANTIATE(BFloat16);
TF_OPT_INSTANTIATE(float);
TF_OPT_INSTANTIATE(double);

}  // namespace tf_opt
