// The stream that an op's work goes into, memory for it, and what becomes of
// its errors.
#ifndef TF_OPT_CC_KERNELS_GPU_STREAM_H_
#define TF_OPT_CC_KERNELS_GPU_STREAM_H_

#include <cstddef>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_opt {

// A cudaStream_t; null if the op runs on a CPU (where the GPU engine is
// emulated, for tests).
void* GpuStream(tensorflow::OpKernelContext* context);

// Memory of the device, aligned for any number; given back when `memory` goes,
// and given to later work of the same stream only.
absl::Status AllocateOnGpu(tensorflow::OpKernelContext* context,
                           std::size_t bytes, tensorflow::Tensor* memory);

// The status for what an engine for GPUs returns: null or a description.
absl::Status CudaStatus(const char* error);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_GPU_STREAM_H_
