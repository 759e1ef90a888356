#include "tf_opt/cc/engines/gpu_sort.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "tf_opt/cc/engines/cuda-inl.cuh"

namespace tf_opt {
namespace {

__global__ void __launch_bounds__(kCudaThreads)
    FillKeys(const __grid_constant__ GpuSliceBatch batch, GpuRowCheck check,
             int64_t* keys, int64_t* numbers) {
  const int64_t threads = int64_t{gridDim.x} * kCudaThreads;
  int64_t entry = int64_t{blockIdx.x} * kCudaThreads + threadIdx.x;
  for (; entry < batch.entries(); entry += threads) {
    FillKey(batch, check, entry, keys, numbers);
  }
}

// The arrays of a batch, one after the other.
struct Arrays {
  Arrays(int64_t* at, int64_t count)
      : keys(at),
        numbers(keys + count),
        sorted_keys(numbers + count),
        sorted_numbers(sorted_keys + count),
        end(sorted_numbers + count) {}

  int64_t *keys, *numbers, *sorted_keys, *sorted_numbers, *end;
};

// Without `temporary` it says only how much of that a sort needs.
cudaError_t Sort(const GpuSliceBatch& batch, const Arrays& arrays,
                 void* temporary, std::size_t* temporary_bytes,
                 cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(
      temporary, *temporary_bytes, arrays.keys, arrays.sorted_keys,
      arrays.numbers, arrays.sorted_numbers, batch.entries(), 0, KeyBits(batch),
      stream);
}

std::size_t TemporaryBytes(const GpuSliceBatch& batch) {
  std::size_t bytes = 0;
  Sort(batch, Arrays(nullptr, 0), nullptr, &bytes, nullptr);
  return bytes;
}

}  // namespace

std::size_t SortWorkspaceBytes(const std::vector<GpuSliceBatch>& batches) {
  std::size_t bytes = 0, temporary = 0;
  for (const GpuSliceBatch& batch : batches) {
    bytes += 4 * batch.entries() * sizeof(int64_t);
    temporary = std::max(temporary, TemporaryBytes(batch));
  }
  return bytes + temporary;
}

const char* SortOnGpu(const std::vector<GpuSliceBatch>& batches,
                      const GpuRowCheck& check, void* workspace, void* stream,
                      std::vector<GpuSortedEntries>* sorted) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  std::vector<Arrays> all;
  auto* at = static_cast<int64_t*>(workspace);
  for (const GpuSliceBatch& batch : batches) {
    const int64_t count = batch.entries();
    const Arrays arrays(at, count);
    at = arrays.end;
    all.push_back(arrays);
    sorted->push_back({arrays.sorted_keys, arrays.sorted_numbers, count});
    if (count == 0) continue;
    FillKeys<<<CudaBlocks(count), kCudaThreads, 0, cuda_stream>>>(
        batch, check, arrays.keys, arrays.numbers);
    if (const char* error = CudaLaunchError()) return error;
  }
  // Behind all arrays is what the sorts need, one after the other.
  for (std::size_t b = 0; b < batches.size(); ++b) {
    if (batches[b].entries() == 0) continue;
    std::size_t temporary = TemporaryBytes(batches[b]);
    const cudaError_t error =
        Sort(batches[b], all[b], at, &temporary, cuda_stream);
    if (error != cudaSuccess) return cudaGetErrorString(error);
  }
  return nullptr;
}

}  // namespace tf_opt
