// TensorFlow's intra-op threads for the CPU engine.
#ifndef TF_OPT_CC_KERNELS_WORKER_THREADS_H_
#define TF_OPT_CC_KERNELS_WORKER_THREADS_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tf_opt/cc/engines/cpu/parallel_for.h"

namespace tf_opt {

// Parameters of ThreadPool::ParallelFor for blocks of a fixed size. TensorFlow
// 2.20 adds a function for them and deprecates the constructor; this uses the
// function if it exists.
template <typename Params>
auto FixedBlocks(int64_t block_size, int)
    -> decltype(Params::Fixed(block_size)) {
  return Params::Fixed(block_size);
}
template <typename Params>
Params FixedBlocks(int64_t block_size, ...) {
  return Params(
      tensorflow::thread::ThreadPool::SchedulingStrategy::kFixedBlockSize,
      std::nullopt, block_size);
}

// Threads of the op's device.
class WorkerThreads {
 public:
  explicit WorkerThreads(tensorflow::OpKernelContext* context)
      : workers_(*context->device()->tensorflow_cpu_worker_threads()) {}

  int count() const { return workers_.num_threads; }

  // Valid as long as the device lives.
  ParallelFor parallel_for() const {
    return [workers = workers_.workers](
               int64_t total, int64_t block_size,
               const std::function<void(int64_t, int64_t)>& body) {
      using Params = tensorflow::thread::ThreadPool::SchedulingParams;
      workers->ParallelFor(total, FixedBlocks<Params>(block_size, 0), body);
    };
  }

 private:
  const tensorflow::DeviceBase::CpuWorkerThreads& workers_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_WORKER_THREADS_H_
