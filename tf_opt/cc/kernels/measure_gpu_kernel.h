// The GPU kernel of TfOpt>MeasureGradients. Only handles are on the host.
#ifndef TF_OPT_CC_KERNELS_MEASURE_GPU_KERNEL_H_
#define TF_OPT_CC_KERNELS_MEASURE_GPU_KERNEL_H_

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tf_opt/cc/engines/gpu/measure_gpu_launch.h"
#include "tf_opt/cc/kernels/gpu_stream.h"
#include "tf_opt/cc/kernels/measure_launch.h"

namespace tf_opt {

// T is TensorFlow's type of the gradients.
template <typename T>
class MeasureGradientsGpuOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    MeasureLaunch<T> launch;
    OP_REQUIRES_OK(context, launch.Prepare(context));
    const auto tensors = launch.Tensors();
    tensorflow::Tensor workspace;
    OP_REQUIRES_OK(
        context,
        AllocateOnGpu(context, MeasureWorkspaceBytes(tensors), &workspace));
    OP_REQUIRES_OK(context, CudaStatus(MeasureGradientsGpu(
                                tensors,
                                {launch.gradient_scale(), launch.enabled(),
                                 launch.sums_of_squares(), launch.finite()},
                                workspace.data(), GpuStream(context))));
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_MEASURE_GPU_KERNEL_H_
