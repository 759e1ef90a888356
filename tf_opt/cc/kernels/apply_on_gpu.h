// Applies dense gradients on a GPU. Only handles and the seed are on the host:
// a step's other numbers stay in device memory, so that a step never waits.
#ifndef TF_OPT_CC_KERNELS_APPLY_ON_GPU_H_
#define TF_OPT_CC_KERNELS_APPLY_ON_GPU_H_

#include <cstddef>
#include <iterator>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/gpu/dense_gpu_launch.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/kernels/gpu_stream.h"
#include "tf_opt/cc/kernels/numbers.h"
#include "tf_opt/cc/kernels/resource_apply_launch.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Adds the addresses of scalars.
template <typename Numbers, std::size_t kCount, typename Inputs>
absl::Status AddScalars(const OpNumbers& source,
                        const ScalarInput<Numbers> (&from)[kCount],
                        Inputs* inputs) {
  const void* data;
  for (const ScalarInput<Numbers>& input : from) {
    TF_RETURN_IF_ERROR(source.Scalar(input.name, &data));
    inputs->Add(input, data);
  }
  return absl::OkStatus();
}

inline GpuVector OnGpu(const PerVariable& vector) {
  return {vector.numbers, vector.one_for_all()};
}

// Applies the rule, framed, to each variable of an op. `launch` is empty.
template <typename Optimizer>
absl::Status ApplyOnGpu(tensorflow::OpKernelContext* context,
                        const Optimizer& optimizer,
                        ResourceApplyLaunch* launch) {
  GpuStepInputs<typename Optimizer::Hyperparameters> inputs;
  static_assert(std::size(Optimizer::kScalars) <= inputs.kCapacity,
                "GpuStepInputs must hold all scalar inputs");
  inputs.scalars.known = optimizer.modes;
  inputs.frame.known = optimizer.frame;
  const OpNumbers source(context);
  TF_RETURN_IF_ERROR(ReadSeed(source, &inputs.frame.known.seed));
  TF_RETURN_IF_ERROR(AddScalars(source, Optimizer::kScalars, &inputs.scalars));
  TF_RETURN_IF_ERROR(AddScalars(source, kFrameScalars, &inputs.frame));
  TF_RETURN_IF_ERROR(FindVectors(source, launch));
  void* const stream = GpuStream(context);
  TF_RETURN_IF_ERROR(
      // Only the device knows whether the step updates.
      launch->Prepare(context, SliceAttributes(), /*updates=*/true,
                      [stream](void* to, const void* from, std::size_t bytes) {
                        return CudaStatus(CopyOnGpu(to, from, bytes, stream));
                      }));
  inputs.weight_decay = OnGpu(launch->vectors[0]);
  inputs.learning_rate_factors = OnGpu(launch->vectors[1]);
  inputs.gradient_factors = OnGpu(launch->vectors[2]);
  inputs.variable_numbers = OnGpu(launch->vectors[3]);
  inputs.frame.known.uses_random_bits =
      launch->UsesRandomBits(inputs.frame.known);
  inputs.has_accumulators = launch->has(kAccumulator);
  if (launch->has_table()) {
    inputs.SetRow(launch->row_input(), launch->table_rows, launch->row);
  }
  return WithStorageType(launch->array(kVariable, 0).type, [&](auto element) {
    using Element = typename decltype(element)::type;
    return optimizer.template ChooseRule<ComputeType<Element>>([&](auto rule) {
      using Rule = typename decltype(rule)::type;
      tensorflow::Tensor workspace;
      TF_RETURN_IF_ERROR(AllocateOnGpu(
          context, GpuRules<Rule>::Bytes(launch->size()), &workspace));
      return CudaStatus(ApplyDenseGpu<Element, Rule>(
          launch->template Tensors<Element, Rule::kSlots>(), inputs,
          workspace.data(), stream));
    });
  });
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_APPLY_ON_GPU_H_
