// What all kernels share.
#ifndef TF_OPT_CC_KERNELS_KERNEL_H_
#define TF_OPT_CC_KERNELS_KERNEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tf_opt/cc/engines/tiles.h"

namespace tf_opt {

// A kernel whose work returns a status or throws. TensorFlow is compiled
// without exceptions: one that leaves a kernel would end the process.
class Kernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) final {
    try {
      OP_REQUIRES_OK(context, Run(context));
    } catch (const std::bad_alloc&) {
      context->CtxFailure(absl::ResourceExhaustedError("out of memory"));
    } catch (const std::exception& exception) {
      context->CtxFailure(absl::InternalError(exception.what()));
    }
  }

 private:
  virtual absl::Status Run(tensorflow::OpKernelContext* context) = 0;
};

// Finds a scalar input.
inline absl::Status FindScalar(tensorflow::OpKernelContext* context,
                               const char* name, const void** data) {
  const tensorflow::Tensor* tensor;
  TF_RETURN_IF_ERROR(context->input(name, &tensor));
  *data = tensor->data();
  if (tensor->dims() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`", name, "` must be a scalar, got shape ",
                   tensor->shape().DebugString()));
}

// Registers `Op` as the kernel of an op for all types of variables.
// `host_inputs` are in the host's memory.
template <typename Op>
void RegisterKernel(const std::string& op, const char* device,
                    const std::vector<std::string>& host_inputs) {
  static constexpr tensorflow::DataType kTypes[] = {
      tensorflow::DT_HALF, tensorflow::DT_BFLOAT16, tensorflow::DT_FLOAT,
      tensorflow::DT_DOUBLE};
  tensorflow::KernelDefBuilder builder(op.c_str());
  builder.Device(device).TypeConstraint("T", kTypes);
  for (const std::string& input : host_inputs) {
    builder.HostMemory(input.c_str());
  }
  tensorflow::kernel_factory::OpKernelRegistrar(
      builder.Build(), op,
      [](tensorflow::OpKernelConstruction* context) -> tensorflow::OpKernel* {
        return new Op(context);
      });
}

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

// Device of a file's kernels: the CPU or, if TF_OPT_GPU_DEVICE names it, that
// of the kernels for GPUs. (Tests name "CPU" and emulate the engine for GPUs.)
#if defined(TF_OPT_GPU_DEVICE)
constexpr char kKernelDevice[] = TF_OPT_GPU_DEVICE;
#else
constexpr char kKernelDevice[] = "CPU";
#endif

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_KERNEL_H_
