// The stream that an op's work goes into.
#ifndef TF_OPT_CC_KERNELS_GPU_STREAM_H_
#define TF_OPT_CC_KERNELS_GPU_STREAM_H_

#include "tensorflow/core/framework/op_kernel.h"

namespace tf_opt {

// A cudaStream_t; null if the op runs on a CPU (where the GPU engine is
// emulated, for tests).
void* GpuStream(tensorflow::OpKernelContext* context);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_GPU_STREAM_H_
