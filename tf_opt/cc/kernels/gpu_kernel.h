// What kernels share that call the engine for GPUs: its queue and errors. A
// step's numbers and rows are on the device, so an op learns of a wrong one
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
#include "tf_opt/cc/engines/step_arrays.h"
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

// Where the device tells why the first step of a kernel wrote nothing.
class GpuReport {
 public:
  // Finds the `place` for the next step, in the device's addresses; fails if an
  // earlier step was refused, with the error that `describe` makes of that.
  template <typename Describe>
  absl::Status Open(tensorflow::OpKernelContext* context,
                    const Describe& describe, Refusal** place) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (report_ == nullptr) {
      tensorflow::AllocatorAttributes host;
      host.set_on_host(true);
      host.set_gpu_compatible(true);
      // Never released: the device may still write when the kernel is gone.
      auto* const memory = new tensorflow::Tensor;
      TF_RETURN_IF_ERROR(context->allocate_temp(
          tensorflow::DT_UINT8, {int64_t{sizeof(Refusal)}}, memory, host));
      void* on_device;
      TF_RETURN_IF_ERROR(CudaStatus(AddressOnGpu(memory->data(), &on_device)));
      report_ = new (memory->data()) Refusal;
      on_device_ = static_cast<Refusal*>(on_device);
    }
    *place = on_device_;
    // All of it was written before the kind.
    if (__atomic_load_n(&report_->kind, __ATOMIC_ACQUIRE) == Refusal::kNone) {
      return absl::OkStatus();
    }
    const absl::Status error = describe(*report_);
    __atomic_store_n(&report_->kind, Refusal::kNone, __ATOMIC_RELEASE);
    return absl::InvalidArgumentError(
        absl::StrCat(error.message(), ", in an earlier step on this GPU"));
  }

 private:
  std::mutex mutex_;
  Refusal* report_ = nullptr;
  Refusal* on_device_ = nullptr;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_GPU_KERNEL_H_
