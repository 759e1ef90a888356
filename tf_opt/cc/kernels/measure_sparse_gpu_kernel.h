// The GPU kernel of TfOpt>MeasureSparseGradients. Only handles are on the host.
#ifndef TF_OPT_CC_KERNELS_MEASURE_SPARSE_GPU_KERNEL_H_
#define TF_OPT_CC_KERNELS_MEASURE_SPARSE_GPU_KERNEL_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/engines/measure_sparse_gpu_launch.h"
#include "tf_opt/cc/kernels/gpu_stream.h"
#include "tf_opt/cc/kernels/measure_launch.h"
#include "tf_opt/cc/kernels/measure_sparse_kernel.h"
#include "tf_opt/cc/kernels/slice_inputs.h"
#include "tf_opt/cc/kernels/slices_on_gpu.h"

namespace tf_opt {

// T is TensorFlow's type of the gradients.
template <typename T>
class MeasureSparseGradientsGpuOp : public MeasureSparseGradientsOp<T> {
 public:
  using Base = MeasureSparseGradientsOp<T>;
  using Base::Base;

  void Compute(tensorflow::OpKernelContext* context) override {
    SliceInputs slices(Base::attributes());
    std::vector<int64_t> rows;
    std::vector<tensorflow::TensorShape> shapes;
    MeasureLaunch<T> launch;
    OP_REQUIRES_OK(context,
                   Base::Prepare(context, &slices, &rows, &shapes, &launch));
    auto tables = launch.Tensors();
    for (int i = 0; i < launch.size(); ++i) {
      tables[i].size = shapes[i].num_elements();
    }
    const auto on_gpu =
        SlicesOnGpu(slices.Slices(), [&](int i) { return rows[i]; });
    tensorflow::Tensor workspace;
    OP_REQUIRES_OK(
        context,
        AllocateOnGpu(context, MeasureSparseWorkspaceBytes(tables, on_gpu),
                      &workspace));
    OP_REQUIRES_OK(context, CudaStatus(MeasureSparseGradientsGpu(
                                tables, on_gpu, Base::attributes().lazy(),
                                {launch.gradient_scale(), launch.enabled(),
                                 launch.sums_of_squares(), launch.finite()},
                                workspace.data(), GpuStream(context))));
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_MEASURE_SPARSE_GPU_KERNEL_H_
