// The CUDA stream of an op, memory in its order, and its errors.
#ifndef TF_OPT_CC_KERNELS_GPU_STREAM_H_
#define TF_OPT_CC_KERNELS_GPU_STREAM_H_

#include <cstddef>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_opt {

// Returns a cudaStream_t; null if the op runs on a CPU (where tests emulate the
// GPU engine).
void* GpuStream(tensorflow::OpKernelContext* context);

// Allocates device memory, aligned for any number. It is released with
// `memory`, and only later work of the same stream may get it.
absl::Status AllocateOnGpu(tensorflow::OpKernelContext* context,
                           std::size_t bytes, tensorflow::Tensor* memory);

// Converts the result of an engine for GPUs, null or a description.
absl::Status CudaStatus(const char* error);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_GPU_STREAM_H_
