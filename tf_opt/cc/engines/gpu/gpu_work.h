// How the work of a launch is divided among a GPU's threads. A work is a struct
// that is passed by value; GpuDevice, CUDA's or the emulated one, runs it:
//
//   Run         work.Run(block, thread) in each thread of each block
//   RunWarps    for each warp: work.AddUp(warp, thread), whose lanes are added,
//               then work.Finish(warp, thread, lanes, sum)
//   RunStages   blocks that, in parts where work.Find(part) finds something,
//   load
//               a stage of shared memory while they add up the one before; see
//               sum_rows_gpu.h
//
// Run<kBlocks> and RunWarps<kBlocks> let a multiprocessor hold at least so many
// blocks at once: the more, the fewer registers a thread has.
#ifndef TF_OPT_CC_ENGINES_GPU_GPU_WORK_H_
#define TF_OPT_CC_ENGINES_GPU_GPU_WORK_H_

#include <cstdint>

#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

constexpr int kGpuThreads = 256;  // Of a block.
constexpr int kWarpThreads = 32;
constexpr int kGpuWarps = kGpuThreads / kWarpThreads;

// Neighbours that a thread loads: 16 bytes of float32.
constexpr int kLanesPerThread = kLanes / kWarpThreads;

// Returns sum + x^2, rounded as on the CPU.
TF_OPT_RULE_INLINE double PlusSquare(double sum, double x) {
  return sum + Square(x);
}
TF_OPT_RULE_INLINE double PlusSquare(double sum, float x) {
#if defined(__CUDA_ARCH__)
  // The square of a float32 is exact in float64, so that nothing is rounded but
  // the sum. Many GPUs take as long for an operation in float64, even a
  // conversion, as for 32 or 64 others: a normal number's bits are moved.
  const uint32_t bits = BitsOf(x) & 0x7fffffff;
  if (bits == 0) return sum;
  const bool is_normal = bits - 0x00800000 < 0x7f000000;
  const double wide =
      is_normal ? __hiloint2double((bits >> 3) + (896 << 20), bits << 29) : x;
  return __fma_rn(wide, wide, sum);
#else
  return sum + Square(x);
#endif
}

// The lanes of one thread of a warp; behind AddUp, `finite` is the warp's.
struct GpuLanes {
  template <typename V>
  TF_OPT_RULE_INLINE void AddSquare(int j, V x) {
    sums[j] = PlusSquare(sums[j], x);
  }

  double sums[kLanesPerThread] = {};
  bool finite = true;
  double kept = 0;  // What AddUp keeps for Finish.
};

// Blocks for so many threads.
inline int64_t BlocksOf(int64_t threads) {
  return (threads + kGpuThreads - 1) / kGpuThreads;
}

// Lets the host read a refusal, unless it hasn't taken the one before.
template <typename Device>
TF_OPT_RULE_INLINE void Tell(const Refusal& refusal, Refusal* report) {
  if (report->kind != Refusal::kNone) return;
  Refusal unpublished = refusal;
  unpublished.kind = Refusal::kNone;
  *report = unpublished;
  Device::Publish(&report->kind, refusal.kind);
}

}  // namespace tf_opt

// The device, and GpuConvert, which widens and narrows elements of 16 bits.
#if defined(__CUDACC__)
#include "tf_opt/cc/engines/gpu/cuda-inl.cuh"
#else
#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"
#endif

#endif  // TF_OPT_CC_ENGINES_GPU_GPU_WORK_H_
