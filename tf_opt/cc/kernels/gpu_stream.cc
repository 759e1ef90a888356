#include "tf_opt/cc/kernels/gpu_stream.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/types.h"
#include "xla/stream_executor/stream.h"

namespace tf_opt {

void* GpuStream(tensorflow::OpKernelContext* context) {
  tensorflow::DeviceContext* const device = context->op_device_context();
  if (device == nullptr || device->stream() == nullptr) return nullptr;
  return device->stream()->platform_specific_handle().stream;
}

absl::Status AllocateOnGpu(tensorflow::OpKernelContext* context,
                           std::size_t bytes, tensorflow::Tensor* memory) {
  return context->allocate_temp(tensorflow::DT_UINT8,
                                {static_cast<int64_t>(bytes)}, memory);
}

absl::Status CudaStatus(const char* error) {
  return error == nullptr ? absl::OkStatus()
                          : absl::InternalError(absl::StrCat("CUDA: ", error));
}

}  // namespace tf_opt
