// The stream that an op's work goes into, and what becomes of its errors.
#ifndef TF_OPT_CC_KERNELS_GPU_STREAM_H_
#define TF_OPT_CC_KERNELS_GPU_STREAM_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_opt {

// A cudaStream_t; null if the op runs on a CPU (where the GPU engine is
// emulated, for tests).
void* GpuStream(tensorflow::OpKernelContext* context);

// The status for what an engine for GPUs returns: null or a description.
absl::Status CudaStatus(const char* error);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_GPU_STREAM_H_
