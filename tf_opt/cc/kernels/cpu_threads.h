// Threads for the CPU engines.
#ifndef TF_OPT_CC_KERNELS_CPU_THREADS_H_
#define TF_OPT_CC_KERNELS_CPU_THREADS_H_

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
inline CpuThreads ThreadsOf(tensorflow::OpKernelContext* context) {
  const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
  using Pool = tensorflow::thread::ThreadPool;
  return {workers.num_threads,
          [pool = workers.workers](
              int64_t total, int64_t block_size,
              const std::function<void(int64_t, int64_t)>& body) {
// TensorFlow before 2.20 has no other way to make them.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
            const Pool::SchedulingParams fixed_blocks(
                Pool::SchedulingStrategy::kFixedBlockSize, std::nullopt,
                block_size);
#pragma GCC diagnostic pop
            pool->ParallelFor(total, fixed_blocks, body);
          }};
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_CPU_THREADS_H_
