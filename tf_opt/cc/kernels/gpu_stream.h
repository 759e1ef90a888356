// The CUDA stream of an op, memory in its order, and its errors.
#ifndef TF_OPT_CC_KERNELS_GPU_STREAM_H_
#define TF_OPT_CC_KERNELS_GPU_STREAM_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "xla/stream_executor/stream.h"

namespace tf_opt {

// Returns a cudaStream_t; null if the op runs on a CPU (where tests emulate the
// GPU engine).
inline void* GpuStream(tensorflow::OpKernelContext* context) {
  tensorflow::DeviceContext* const device = context->op_device_context();
  if (device == nullptr || device->stream() == nullptr) return nullptr;
  return device->stream()->platform_specific_handle().stream;
}

// Allocates device memory, aligned for any number. It is released with
// `memory`, and only later work of the same stream may get it.
inline absl::Status AllocateOnGpu(tensorflow::OpKernelContext* context,
                                  std::size_t bytes,
                                  tensorflow::Tensor* memory) {
  return context->allocate_temp(tensorflow::DT_UINT8,
                                {static_cast<int64_t>(bytes)}, memory);
}

// Converts the result of an engine for GPUs, null or a description.
inline absl::Status CudaStatus(const char* error) {
  return error == nullptr ? absl::OkStatus()
                          : absl::InternalError(absl::StrCat("CUDA: ", error));
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_GPU_STREAM_H_
