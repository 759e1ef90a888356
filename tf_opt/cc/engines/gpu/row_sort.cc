// Compiled with CUDA's compiler for a GPU, with any other for its emulation.
#include "tf_opt/cc/engines/gpu/row_sort.h"

#if defined(__CUDACC__)

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <utility>

namespace tf_opt {
namespace {

using Numbers = cub::DoubleBuffer<uint32_t>;

const char* ErrorOf(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace

std::size_t SortRoomBytes(int64_t count) {
  std::size_t sort = 0, sum = 0;
  Numbers keys, positions;
  uint32_t* const none = nullptr;
  cub::DeviceRadixSort::SortPairs(nullptr, sort, keys, positions,
                                  static_cast<int>(count));
  cub::DeviceScan::InclusiveSum(nullptr, sum, none, none,
                                static_cast<int>(count));
  return std::max(sort, sum);
}

const char* SortKeys(int64_t count, int bits, uint32_t** keys,
                     uint32_t** other_keys, uint32_t** positions,
                     uint32_t** other_positions, void* room, std::size_t bytes,
                     void* stream) {
  Numbers all_keys(*keys, *other_keys);
  Numbers all_positions(*positions, *other_positions);
  const cudaError_t error = cub::DeviceRadixSort::SortPairs(
      room, bytes, all_keys, all_positions, static_cast<int>(count), 0, bits,
      static_cast<cudaStream_t>(stream));
  *keys = all_keys.Current();
  *other_keys = all_keys.Alternate();
  *positions = all_positions.Current();
  *other_positions = all_positions.Alternate();
  return ErrorOf(error);
}

const char* AddUpTo(int64_t count, const uint32_t* numbers, uint32_t* sums,
                    void* room, std::size_t bytes, void* stream) {
  return ErrorOf(cub::DeviceScan::InclusiveSum(
      room, bytes, numbers, sums, static_cast<int>(count),
      static_cast<cudaStream_t>(stream)));
}

}  // namespace tf_opt

#else

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace tf_opt {

std::size_t SortRoomBytes(int64_t) { return 1; }

const char* SortKeys(int64_t count, int bits, uint32_t** keys,
                     uint32_t** other_keys, uint32_t** positions,
                     uint32_t** other_positions, void*, std::size_t, void*) {
  const uint32_t mask = bits < 32 ? (1u << bits) - 1 : ~0u;
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return ((*keys)[a] & mask) < ((*keys)[b] & mask);
  });
  for (int64_t k = 0; k < count; ++k) {
    (*other_keys)[k] = (*keys)[order[k]];
    (*other_positions)[k] = (*positions)[order[k]];
  }
  std::swap(*keys, *other_keys);
  std::swap(*positions, *other_positions);
  return nullptr;
}

const char* AddUpTo(int64_t count, const uint32_t* numbers, uint32_t* sums,
                    void*, std::size_t, void*) {
  std::partial_sum(numbers, numbers + count, sums);
  return nullptr;
}

}  // namespace tf_opt

#endif
