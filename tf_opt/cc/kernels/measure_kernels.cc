// The kernels of the measuring ops: those of the CPU or those of a GPU; see
// kKernelDevice.
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/measure.h"
#include "tf_opt/cc/kernels/numbers.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/kernels/variable_access.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/rules/operand.h"
#if defined(TF_OPT_GPU_DEVICE)
#include "tf_opt/cc/engines/gpu/measure_gpu_launch.h"
#include "tf_opt/cc/kernels/gpu_stream.h"
#include "tf_opt/cc/kernels/storage_type.h"
#endif

namespace tf_opt {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

#if defined(TF_OPT_GPU_DEVICE)
absl::Status MeasureOnGpu(OpKernelContext* context,
                          const MeasureLaunch& launch) {
  return WithStorageType(launch.type, [&](auto element) {
    const auto tensors = launch.Tensors<typename decltype(element)::type>();
    Tensor workspace;
    TF_RETURN_IF_ERROR(
        AllocateOnGpu(context, MeasureWorkspaceBytes(tensors), &workspace));
    return CudaStatus(
        MeasureGradientsGpu(tensors,
                            {launch.gradient_scale, launch.enabled,
                             launch.sums_of_squares, launch.finite},
                            workspace.data(), GpuStream(context)));
  });
}
#endif

// Dense and sparse gradients.
class MeasureOp : public Kernel {
 public:
  explicit MeasureOp(tensorflow::OpKernelConstruction* context)
      : Kernel(context) {
    OP_REQUIRES_OK(context, attributes_.Read(context->def()));
  }

 private:
  // It reads only the host's memory, whatever the device.
  absl::Status Run(OpKernelContext* context) override {
    MeasureLaunch launch;
    std::vector<TensorShape> shapes;
    TF_RETURN_IF_ERROR(FindGradients(context, &shapes, &launch));
    const int count = shapes.size();
    VariableList accumulators;
    TF_RETURN_IF_ERROR(accumulators.Lookup(context, "accumulators"));
    TF_RETURN_IF_ERROR(CheckLength("accumulators", "variable",
                                   /*optional=*/true, count,
                                   accumulators.size()));
    ScopedVariableLocks locks;
    TF_RETURN_IF_ERROR(locks.Lock({&accumulators}, /*shared=*/true));
    for (int i = 0; i < accumulators.size(); ++i) {
      TF_RETURN_IF_ERROR(CheckVariable(accumulators, i,
                                       kFrameOperands[kAccumulator],
                                       launch.type, shapes[i], "gradients"));
      launch.accumulators.push_back(ArrayOf(*accumulators[i]->tensor()));
    }
    const void *scale, *enabled;
    TF_RETURN_IF_ERROR(FindScalar(context, "gradient_scale", &scale));
    TF_RETURN_IF_ERROR(FindScalar(context, "enabled", &enabled));
    launch.gradient_scale = static_cast<const double*>(scale);
    launch.enabled = static_cast<const bool*>(enabled);
    Tensor *sums, *finite;
    TF_RETURN_IF_ERROR(context->allocate_output(0, {count}, &sums));
    TF_RETURN_IF_ERROR(context->allocate_output(1, {count}, &finite));
    launch.sums_of_squares = static_cast<double*>(sums->data());
    launch.finite = static_cast<bool*>(finite->data());
#if defined(TF_OPT_GPU_DEVICE)
    return MeasureOnGpu(context, launch);
#else
    return MeasureOnCpu(launch, attributes_, ThreadsOf(context));
#endif
  }

  // Finds the gradients and the shapes of their variables.
  absl::Status FindGradients(OpKernelContext* context,
                             std::vector<TensorShape>* shapes,
                             MeasureLaunch* launch) const {
    tensorflow::OpInputList gradients;
    TF_RETURN_IF_ERROR(context->input_list("gradients", &gradients));
    launch->type = gradients[0].dtype();
    if (!attributes_.sparse()) {
      for (const Tensor& gradient : gradients) {
        shapes->push_back(gradient.shape());
        launch->gradients.push_back(ArrayOf(gradient));
      }
      return absl::OkStatus();
    }
    const Tensor* rows;
    TF_RETURN_IF_ERROR(context->input("rows", &rows));
    const auto* const numbers = static_cast<const int64_t*>(rows->data());
    launch->rows.assign(numbers, numbers + rows->NumElements());
    TF_RETURN_IF_ERROR(CheckTableRows(gradients.size(), launch->rows));
    for (int i = 0; i < gradients.size(); ++i) {
      const absl::StatusOr<TensorShape> shape =
          TableShape(launch->rows[i], gradients[i].shape());
      if (!shape.ok()) return shape.status();
      shapes->push_back(*shape);
    }
    return FindSlices(context, attributes_, *shapes, &launch->slices);
  }

  SliceAttributes attributes_;
};

[[maybe_unused]] const bool registered = [] {
  RegisterKernel<MeasureOp>("TfOpt>MeasureGradients", kKernelDevice,
                            {"accumulators"});
#if !defined(TF_OPT_GPU_DEVICE)
  // On a GPU the composed implementation measures sparse gradients.
  RegisterKernel<MeasureOp>("TfOpt>MeasureSparseGradients", kKernelDevice,
                            {"accumulators"});
#endif
  return true;
}();

}  // namespace
}  // namespace tf_opt
