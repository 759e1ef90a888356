// The GPU kernels of the resource-apply ops, for dense gradients. Only handles
// are on the host: a step's numbers stay in device memory, so that a step never
// waits.
#ifndef TF_OPT_CC_KERNELS_RESOURCE_APPLY_GPU_H_
#define TF_OPT_CC_KERNELS_RESOURCE_APPLY_GPU_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/gpu/dense_gpu_launch.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/kernels/gpu_stream.h"
#include "tf_opt/cc/kernels/resource_apply_launch.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Applies the rule, framed, to each variable. T is TensorFlow's type of the
// variables; `Optimizer` is described in resource_apply_kernels.h.
template <typename T, typename Optimizer>
class ResourceApplyGpuOp : public tensorflow::OpKernel {
 public:
  explicit ResourceApplyGpuOp(tensorflow::OpKernelConstruction* context)
      : OpKernel(context) {
    OP_REQUIRES_OK(context, optimizer_.Read(context->def()));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    GpuStepInputs<typename Optimizer::Hyperparameters> inputs;
    static_assert(std::size(Optimizer::kScalars) <= inputs.kCapacity,
                  "GpuStepInputs must hold all scalar inputs");
    inputs.scalars.known = optimizer_.modes();
    inputs.frame.known = optimizer_.frame();
    OP_REQUIRES_OK(context,
                   ReadInteger(context, "seed", &inputs.frame.known.seed));
    OP_REQUIRES_OK(context,
                   AddScalars(context, Optimizer::kScalars, &inputs.scalars));
    OP_REQUIRES_OK(context, AddScalars(context, kFrameScalars, &inputs.frame));
    void* const stream = GpuStream(context);
    ResourceApplyLaunch launch;
    OP_REQUIRES_OK(
        context,
        // Only the device knows whether the step updates.
        launch.Prepare(context, optimizer_.slots(), /*updates=*/true,
                       [stream](void* to, const void* from, std::size_t bytes) {
                         return CudaStatus(CopyOnGpu(to, from, bytes, stream));
                       }));
    inputs.weight_decay = OnGpu(launch.vectors[0]);
    inputs.learning_rate_factors = OnGpu(launch.vectors[1]);
    inputs.gradient_factors = OnGpu(launch.vectors[2]);
    inputs.variable_numbers = OnGpu(launch.vectors[3]);
    inputs.frame.known.uses_random_bits =
        launch.UsesRandomBits(inputs.frame.known);
    inputs.has_accumulators = launch.has(kAccumulator);
    if (launch.has_table()) {
      inputs.SetRow(launch.operands()[launch.table()].row_input,
                    launch.table_rows, launch.row);
    }
    optimizer_.template ChooseRule<ComputeType<Element>>([&](auto chosen) {
      using Rule = typename decltype(chosen)::type;
      tensorflow::Tensor workspace;
      OP_REQUIRES_OK(
          context, AllocateOnGpu(context, GpuRules<Rule>::Bytes(launch.size()),
                                 &workspace));
      OP_REQUIRES_OK(context, CudaStatus(ApplyDenseGpu<Element, Rule>(
                                  launch.Tensors<Element, Rule::kSlots>(),
                                  inputs, workspace.data(), stream)));
    });
  }

 private:
  using Element = typename StorageTypeOf<T>::type;

  template <typename Inputs, std::size_t kCount, typename Numbers>
  static absl::Status AddScalars(tensorflow::OpKernelContext* context,
                                 const ScalarInput<Numbers> (&from)[kCount],
                                 Inputs* inputs) {
    const tensorflow::Tensor* tensor;
    for (const ScalarInput<Numbers>& input : from) {
      TF_RETURN_IF_ERROR(FindScalar(context, input.name, &tensor));
      inputs->Add(input, tensor->data());
    }
    return absl::OkStatus();
  }

  static GpuVector OnGpu(const PerVariable& vector) {
    return {vector.numbers, vector.one_for_all()};
  }

  Optimizer optimizer_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_RESOURCE_APPLY_GPU_H_
