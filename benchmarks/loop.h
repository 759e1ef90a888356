// Variants of the dense CPU engine's loop, which loop.cc times.
#ifndef BENCHMARKS_LOOP_H_
#define BENCHMARKS_LOOP_H_

#include <cstdint>
#include <vector>

namespace tf_opt {

// Applies an update to the elements [begin, end) of arrays of `size`.
using ApplyToRange = void(void* const* arrays, int64_t size, int64_t begin,
                          int64_t end);

// An update that is timed, with the arrays that it reads and writes.
struct LoopMode {
  const char* name;
  // Bytes of one element in each array: variable, gradient, master weight,
  // average, slots; 0 where there is none.
  std::vector<int> bytes;
  ApplyToRange* apply;
  ApplyToRange* plain;  // By a plain loop; null if that isn't timed.
};

// A place where all arrays may be.
constexpr int kLoopArrays = 7;

// loop_variants.cc defines these for each instruction set and block size. Each
// has the same modes in the same order.
//
// MoveBytes shows what the bytes cost alone: it reads the elements [begin, end)
// of all arrays, and writes those that an update writes.
#define TF_OPT_DECLARE_LOOP(name)                                    \
  namespace name {                                                   \
  std::vector<LoopMode> LoopModes();                                 \
  void MoveBytes(void* const* arrays, const std::vector<int>& bytes, \
                 int64_t begin, int64_t end);                        \
  }
TF_OPT_DECLARE_LOOP(avx2_64)
TF_OPT_DECLARE_LOOP(avx2_128)
TF_OPT_DECLARE_LOOP(avx2_256)
TF_OPT_DECLARE_LOOP(avx512_64)
TF_OPT_DECLARE_LOOP(avx512_128)
TF_OPT_DECLARE_LOOP(avx512_256)
#undef TF_OPT_DECLARE_LOOP

}  // namespace tf_opt

#endif  // BENCHMARKS_LOOP_H_
