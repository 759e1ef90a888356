// Sorts keys, and counts: by CUB on a GPU. Without a name of CUDA.
#ifndef TF_OPT_CC_ENGINES_GPU_ROW_SORT_H_
#define TF_OPT_CC_ENGINES_GPU_ROW_SORT_H_

#include <cstddef>
#include <cstdint>

namespace tf_opt {

// Bytes of device memory that each of these needs as `room`, at least.
std::size_t SortRoomBytes(int64_t count);

// Sorts keys of so many bits with their positions, stably, in the stream's
// order. The results may be in the other arrays: they are swapped then, which
// the host knows at once.
const char* SortKeys(int64_t count, int bits, uint32_t** keys,
                     uint32_t** other_keys, uint32_t** positions,
                     uint32_t** other_positions, void* room, std::size_t bytes,
                     void* stream);

// Writes for each number the sum of all up to it.
const char* AddUpTo(int64_t count, const uint32_t* numbers, uint32_t* sums,
                    void* room, std::size_t bytes, void* stream);

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_ROW_SORT_H_
