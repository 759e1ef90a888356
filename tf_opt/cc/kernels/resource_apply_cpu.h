// The CPU kernels of the resource-apply ops.
#ifndef TF_OPT_CC_KERNELS_RESOURCE_APPLY_CPU_H_
#define TF_OPT_CC_KERNELS_RESOURCE_APPLY_CPU_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/kernels/apply_on_cpu.h"
#include "tf_opt/cc/kernels/resource_apply_launch.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/kernels/scratch.h"
#include "tf_opt/cc/kernels/slice_inputs.h"
#include "tf_opt/cc/kernels/slices_on_cpu.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/kernels/worker_threads.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// T is TensorFlow's type of the variables; `Optimizer` is described in
// resource_apply_kernels.h.
template <typename T, typename Optimizer>
class ResourceApplyCpuOpBase : public tensorflow::OpKernel {
 public:
  explicit ResourceApplyCpuOpBase(tensorflow::OpKernelConstruction* context)
      : OpKernel(context) {
    OP_REQUIRES_OK(context, optimizer_.Read(context->def()));
  }

 protected:
  using Element = typename StorageTypeOf<T>::type;

  // Reads and checks all inputs, and locks; unless there is nothing to do
  // calls run(launch, arguments) with them, as CpuArguments<Element, Rule>.
  template <typename Run>
  void Compute(tensorflow::OpKernelContext* context, const SliceInputs* slices,
               const Run& run) const {
    FrameInputs frame = optimizer_.frame();
    OP_REQUIRES_OK(context, ReadScalars(context, kFrameScalars, &frame));
    if (!frame.enabled) return;
    OP_REQUIRES_OK(context, ReadInteger(context, "seed", &frame.seed));
    auto hyperparameters = optimizer_.modes();
    OP_REQUIRES_OK(context,
                   ReadScalars(context, Optimizer::kScalars, &hyperparameters));
    ResourceApplyLaunch launch;
    OP_REQUIRES_OK(context,
                   launch.Prepare(
                       context, optimizer_.slots(), frame.update,
                       [](void* to, const void* from, std::size_t bytes) {
                         std::memcpy(to, from, bytes);
                         return absl::OkStatus();
                       },
                       slices));
    OP_REQUIRES_OK(context,
                   RunOnCpu<Element>(
                       optimizer_, launch, hyperparameters, frame,
                       [&](const auto& arguments) { run(launch, arguments); }));
  }

 private:
  Optimizer optimizer_;
};

// Applies the rule, framed, to each variable, on TensorFlow's intra-op threads.
template <typename T, typename Optimizer>
class ResourceApplyCpuOp : public ResourceApplyCpuOpBase<T, Optimizer> {
 public:
  using ResourceApplyCpuOpBase<T, Optimizer>::ResourceApplyCpuOpBase;

  void Compute(tensorflow::OpKernelContext* context) override {
    const auto run = [context](const auto& launch, const auto& arguments) {
      const WorkerThreads workers(context);
      ApplyDense<typename StorageTypeOf<T>::type>(
          arguments.tensors, arguments.rules, ChosenCpuTarget(),
          workers.count(), workers.parallel_for(), arguments.update);
    };
    ResourceApplyCpuOpBase<T, Optimizer>::Compute(context, nullptr, run);
  }
};

// The same where gradients are sparse.
template <typename T, typename Optimizer>
class ResourceSparseApplyCpuOp : public ResourceApplyCpuOpBase<T, Optimizer> {
 public:
  explicit ResourceSparseApplyCpuOp(tensorflow::OpKernelConstruction* context)
      : ResourceApplyCpuOpBase<T, Optimizer>(context) {
    OP_REQUIRES_OK(context, attributes_.Read(context->def()));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    SliceInputs slices(attributes_);
    OP_REQUIRES_OK(context, slices.Find(context));
    const auto run = [&](const auto& launch, const auto& arguments) {
      const WorkerThreads workers(context);
      OpScratch scratch(context);
      OP_REQUIRES_OK(context, ApplySlices(launch, arguments, slices.Slices(),
                                          attributes_, workers.count(),
                                          workers.parallel_for(), &scratch));
    };
    ResourceApplyCpuOpBase<T, Optimizer>::Compute(context, &slices, run);
  }

 private:
  SliceAttributes attributes_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_RESOURCE_APPLY_CPU_H_
