// How the work of a launch is divided among a GPU's threads. A work is a struct
// that is passed by value; GpuDevice, CUDA's or the emulated one, runs it:
//
//   Run         work.Run(block, thread) in each thread of each block
//   RunWarps    for each warp: work.AddUp(warp, thread), whose lanes are added,
//               then work.Finish(warp, thread, lanes, sum)
//   RunStages   blocks that load a stage of shared memory while they add up the
//               one before; see sum_rows_gpu.h
//
// Run<kBlocks> and RunWarps<kBlocks> let a multiprocessor hold at least so many
// blocks at once: the more, the fewer registers a thread has.
#ifndef TF_OPT_CC_ENGINES_GPU_GPU_WORK_H_
#define TF_OPT_CC_ENGINES_GPU_GPU_WORK_H_

#include <cstdint>

#include "tf_opt/cc/engines/measure.h"

namespace tf_opt {

constexpr int kGpuThreads = 256;  // Of a block.
constexpr int kWarpThreads = 32;
constexpr int kGpuWarps = kGpuThreads / kWarpThreads;

// Neighbours that a thread loads: 16 bytes of float32.
constexpr int kLanesPerThread = kLanes / kWarpThreads;

// The lanes of one thread of a warp; behind AddUp, `finite` is the warp's.
struct GpuLanes {
  double sums[kLanesPerThread] = {};
  bool finite = true;
  double kept = 0;  // What AddUp keeps for Finish.
};

// Blocks for so many threads.
inline int64_t BlocksOf(int64_t threads) {
  return (threads + kGpuThreads - 1) / kGpuThreads;
}

}  // namespace tf_opt

// The device, and GpuConvert, which widens and narrows elements of 16 bits.
#if defined(__CUDACC__)
#include "tf_opt/cc/engines/gpu/cuda-inl.cuh"
#else
#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"
#endif

#endif  // TF_OPT_CC_ENGINES_GPU_GPU_WORK_H_
