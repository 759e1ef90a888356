// What kernels share that call the engine for GPUs: its queue and errors, and
// sparse gradients. Their rows are on the device, so an op learns of a bad one
// only later: the next step of the same op tells.
#ifndef TF_OPT_CC_KERNELS_GPU_KERNEL_H_
#define TF_OPT_CC_KERNELS_GPU_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/kernels/slices.h"
#include "xla/stream_executor/stream.h"

namespace tf_opt {

// Returns the op's queue, whose stream is null if the op runs on a CPU (where
// tests emulate the GPU engine). What is allocated, once, is released with
// `memory`, and only later work of the same stream may get it.
inline GpuQueue QueueOf(tensorflow::OpKernelContext* context,
                        tensorflow::Tensor* memory) {
  tensorflow::DeviceContext* const device = context->op_device_context();
  const bool has_stream = device != nullptr && device->stream() != nullptr;
  return {has_stream ? device->stream()->platform_specific_handle().stream
                     : nullptr,
          [context, memory](std::size_t bytes) {
            const absl::Status status = context->allocate_temp(
                tensorflow::DT_UINT8, {static_cast<int64_t>(bytes)}, memory);
            if (status.ok()) return memory->data();
            context->CtxFailure(status);  // Which tells more.
            throw std::bad_alloc();
          }};
}

// Converts the result of an engine for GPUs, null or a description.
inline absl::Status CudaStatus(const char* error) {
  return error == nullptr ? absl::OkStatus()
                          : absl::InternalError(absl::StrCat("CUDA: ", error));
}

// Where the device writes the first bad row of a kernel's steps.
class BadRowReport {
 public:
  // Finds `place` for the next step; fails if an earlier step had a bad row.
  absl::Status Open(tensorflow::OpKernelContext* context,
                    const TableNames& names, BadRow** place) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (place_ == nullptr) {
      tensorflow::AllocatorAttributes host;
      host.set_on_host(true);
      host.set_gpu_compatible(true);
      // Never released: the device may still write when the kernel is gone.
      auto* const memory = new tensorflow::Tensor;
      TF_RETURN_IF_ERROR(context->allocate_temp(
          tensorflow::DT_UINT8, {int64_t{sizeof(BadRow)}}, memory, host));
      place_ = new (memory->data()) BadRow;
    }
    *place = place_;
    if (place_->table == 0) return absl::OkStatus();
    const absl::Status error = BadRowError(*place_, names);
    place_->table = 0;
    return absl::InvalidArgumentError(
        absl::StrCat(error.message(), ", in an earlier step on this GPU"));
  }

 private:
  std::mutex mutex_;
  BadRow* place_ = nullptr;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_GPU_KERNEL_H_
