// Threads for the CPU engines.
#ifndef TF_OPT_CC_KERNELS_CPU_THREADS_H_
#define TF_OPT_CC_KERNELS_CPU_THREADS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tf_opt/cc/engines/cpu/parallel_for.h"

namespace tf_opt {

struct CpuThreads {
  int count;
  ParallelFor parallel_for;
};

// Returns TensorFlow's intra-op threads, valid as long as the op's device.
// The thread that calls `parallel_for` takes pieces, too: waiting for the pool
// instead took 20 to 35 us longer per launch.
inline CpuThreads ThreadsOf(tensorflow::OpKernelContext* context) {
  const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
  using Pool = tensorflow::thread::ThreadPool;
  return {workers.num_threads,
          [pool = workers.workers](
              int64_t total, int64_t block_size,
              const std::function<void(int64_t, int64_t)>& body) {
            std::atomic<int64_t> next(0);
            const auto work = [&](int64_t, int64_t) {
              for (;;) {
                const int64_t begin = next.fetch_add(block_size);
                if (begin >= total) return;
                body(begin, std::min(total, begin + block_size));
              }
            };
// TensorFlow before 2.20 has no other way to make them.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
            const Pool::SchedulingParams one_each(
                Pool::SchedulingStrategy::kFixedBlockSize, std::nullopt, 1);
#pragma GCC diagnostic pop
            // TensorFlow runs one of them here if there are no more than
            // threads.
            const int64_t pieces = (total + block_size - 1) / block_size;
            pool->ParallelFor(std::min<int64_t>(pool->NumThreads(), pieces),
                              one_each, work);
          }};
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_CPU_THREADS_H_
