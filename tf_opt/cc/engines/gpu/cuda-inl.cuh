// The GPU for the engines: it runs their works in threads of its own. Included
// by gpu_work.h.
//
// To be compiled with -fmad=false: then they give the bits of the CPU engines,
// but for subnormal results, which the CPU flushes to zero. It costs no time,
// as the kernels wait for memory.
#ifndef TF_OPT_CC_ENGINES_GPU_CUDA_INL_CUH_
#define TF_OPT_CC_ENGINES_GPU_CUDA_INL_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

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

template <int kBlocks, typename Work>
__global__ void __launch_bounds__(kGpuThreads, kBlocks)
    RunWork(const __grid_constant__ Work work) {
  work.Run(blockIdx.x, threadIdx.x);
}

// The sum of a warp's lanes, for all of its threads: what AddLanes<kLanes>
// would make of them. A lane half of them further on is another thread's until
// there are no more lanes than one thread has.
__device__ inline double AddWarp(double (&sums)[kLanesPerThread]) {
  constexpr unsigned kAll = 0xffffffff;
  for (int threads = kWarpThreads / 2; threads > 0; threads /= 2) {
    for (int j = 0; j < kLanesPerThread; ++j) {
      sums[j] += __shfl_down_sync(kAll, sums[j], threads);
    }
  }
  return __shfl_sync(kAll, AddLanes<kLanesPerThread>(sums), 0);
}

template <int kBlocks, typename Work>
__global__ void __launch_bounds__(kGpuThreads, kBlocks)
    RunWarpWork(const __grid_constant__ Work work, int64_t warps) {
  const int64_t warp =
      int64_t{blockIdx.x} * kGpuWarps + threadIdx.x / kWarpThreads;
  if (warp >= warps) return;
  const int thread = threadIdx.x % kWarpThreads;
  GpuLanes lanes = work.AddUp(warp, thread);
  const double sum = AddWarp(lanes.sums);
  // After this no thread still reads what another one writes.
  lanes.finite = __all_sync(0xffffffff, lanes.finite);
  __syncwarp();
  work.Finish(warp, thread, lanes, sum);
}

template <typename Work>
__global__ void __launch_bounds__(kGpuThreads)
    RunStagedWork(const __grid_constant__ Work work) {
  __shared__ typename Work::Stage stages[2];
  if (blockIdx.x == 0 && threadIdx.x == 0) work.Report();
  const int64_t parts = work.parts(), blocks = gridDim.x;
  // Most parts have nothing to do: each warp looks at as many as it has
  // threads.
  for (int64_t first = blockIdx.x; first < parts;
       first += kWarpThreads * blocks) {
    const int64_t own = first + threadIdx.x % kWarpThreads * blocks;
    const int64_t found = own < parts ? work.Find(own) : -1;
    uint32_t left = __ballot_sync(0xffffffff, found >= 0);
    for (; left != 0; left &= left - 1) {
      const int lane = __ffs(left) - 1;
      typename Work::Thread thread(work, first + lane * blocks,
                                   __shfl_sync(0xffffffff, found, lane),
                                   threadIdx.x);
      thread.Load(0, &stages[0]);
      __syncthreads();
      for (int64_t s = 0; s < thread.stages(); ++s) {
        thread.Load(s + 1, &stages[(s + 1) % 2]);
        thread.Add(s, stages[s % 2]);
        __syncthreads();
      }
      thread.Finish();
    }
  }
}

inline const char* ErrorOf(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// Works in a stream's order, until one fails.
class CudaDevice {
 public:
  explicit CudaDevice(void* stream)
      : stream_(static_cast<cudaStream_t>(stream)) {}

  // What went wrong, or null.
  const char* error() const { return error_; }
  void* stream() const { return stream_; }
  void Note(const char* error) {
    if (error_ == nullptr) error_ = error;
  }

  template <int kBlocks = 1, typename Work>
  void Run(const Work& work, int64_t blocks) {
    static_assert(sizeof(Work) <= kGpuArgumentBytes, "too large an argument");
    Launch(RunWork<kBlocks, Work>, blocks, work);
  }
  template <int kBlocks = 1, typename Work>
  void RunWarps(const Work& work, int64_t warps) {
    Launch(RunWarpWork<kBlocks, Work>, BlocksOf(warps * kWarpThreads), work,
           warps);
  }
  template <typename Work>
  void RunStages(const Work& work) {
    Launch(RunStagedWork<Work>, Work::kGrid, work);
  }

  void Clear(void* memory, std::size_t bytes) {
    if (bytes == 0 || error_ != nullptr) return;
    Note(ErrorOf(cudaMemsetAsync(memory, 0, bytes, stream_)));
  }
  void Copy(void* to, const void* from, std::size_t bytes) {
    Note(ErrorOf(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_)));
  }

  // Templates, so that works, which the host compiles, too, may call them.
  template <typename Number>
  __device__ static void AtomicMax(Number* at, Number value) {
    atomicMax(at, value);
  }
  // Lets the host see all that was written before it sees this number.
  template <typename Number>
  __device__ static void Publish(Number* at, Number number) {
    __threadfence_system();
    *at = number;
  }

 private:
  template <typename Kernel, typename... Arguments>
  void Launch(Kernel kernel, int64_t blocks, const Arguments&... arguments) {
    if (blocks == 0 || error_ != nullptr) return;
    kernel<<<static_cast<unsigned>(blocks), kGpuThreads, 0, stream_>>>(
        arguments...);
    Note(ErrorOf(cudaGetLastError()));
  }

  cudaStream_t stream_;
  const char* error_ = nullptr;
};

using GpuDevice = CudaDevice;
using GpuConvert = CudaConvert;

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_CUDA_INL_CUH_
