// The kernel of MeasureGradients: that of the CPU or that of a GPU; see
// kKernelDevice.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/variable_access.h"
#include "tf_opt/cc/rules/operand.h"
#if defined(TF_OPT_GPU_DEVICE)
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/kernels/gpu_kernel.h"
#else
#include "tensorflow/core/platform/denormal.h"
#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/cpu/measure_cpu.h"
#endif

namespace tf_opt {
namespace {

using ::tensorflow::OpInputList;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// Measures gradients of this type.
template <typename T>
absl::Status MeasureAll(OpKernelContext* context,
                        const std::vector<MeasuredTensor<T>>& gradients,
                        const MeasureArguments& arguments) {
#if defined(TF_OPT_GPU_DEVICE)
  Tensor workspace;
  return CudaStatus(
      MeasureGradientsGpu(gradients, arguments, QueueOf(context, &workspace)));
#else
  // As when gradients are applied: TensorFlow's pool threads flush denormals to
  // zero, and this thread must give the same numbers.
  const tensorflow::port::ScopedFlushDenormal flush_denormals;
  MeasureGradients(gradients, arguments, ChosenCpuTarget(), ThreadsOf(context));
  return absl::OkStatus();
#endif
}

// Finds the rows that a gradient has of its accumulator, of shape `table`.
absl::Status FindRows(int i, const Tensor& gradient, const Tensor& rows,
                      const TensorShape& table, GradientRows* found) {
  bool fits = rows.dims() == 1 && table.dims() > 0 &&
              DimensionsFit(gradient.shape(), 1, table, 1) &&
              gradient.dim_size(0) == rows.dim_size(0);
  const auto* const numbers = static_cast<const int64_t*>(rows.data());
#if !defined(TF_OPT_GPU_DEVICE)  // There they are in the device's memory.
  for (int64_t k = 0; fits && k < rows.NumElements(); ++k) {
    fits = (k == 0 ? 0 : numbers[k - 1] + 1) <= numbers[k] &&
           numbers[k] < table.dim_size(0);
  }
#endif
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`rows[", i, "]` must be ascending rows of `accumulators[", i,
        "]`, shape ", table.DebugString(), ", one for each row of `gradients[",
        i, "]`, shape ", gradient.shape().DebugString()));
  }
  *found = {numbers, rows.NumElements(), WidthOf(gradient)};
  return absl::OkStatus();
}

class MeasureOp : public Kernel {
 public:
  using Kernel::Kernel;

 private:
  // It reads only the host's memory, whatever the device.
  absl::Status Run(OpKernelContext* context) override {
    OpInputList gradients, rows;
    VariableList accumulators;
    TF_RETURN_IF_ERROR(context->input_list("gradients", &gradients));
    TF_RETURN_IF_ERROR(context->input_list("rows", &rows));
    const int count = gradients.size();
    const tensorflow::DataType type = gradients[0].dtype();
    const bool has_rows = rows.size() > 0;
    TF_RETURN_IF_ERROR(
        CheckLength("rows", "vector", /*optional=*/true, count, rows.size()));
    TF_RETURN_IF_ERROR(accumulators.Lookup(context, "accumulators"));
    TF_RETURN_IF_ERROR(CheckLength("accumulators", "variable",
                                   /*optional=*/!has_rows, count,
                                   accumulators.size()));
    ScopedVariableLocks locks;
    TF_RETURN_IF_ERROR(locks.Lock({&accumulators}, /*shared=*/true));
    std::vector<GradientRows> found(count);
    for (int i = 0; i < accumulators.size(); ++i) {
      const Tensor& accumulator = *accumulators[i]->tensor();
      TF_RETURN_IF_ERROR(CheckVariable(
          accumulators, i, kFrameOperands[kAccumulator], type,
          has_rows ? accumulator.shape() : gradients[i].shape(), "gradients"));
      if (!has_rows) continue;
      TF_RETURN_IF_ERROR(
          FindRows(i, gradients[i], rows[i], accumulator.shape(), &found[i]));
    }
    const void *scale, *enabled;
    TF_RETURN_IF_ERROR(FindScalar(context, "gradient_scale", &scale));
    TF_RETURN_IF_ERROR(FindScalar(context, "enabled", &enabled));
    Tensor *sums, *finite;
    TF_RETURN_IF_ERROR(context->allocate_output(0, {count}, &sums));
    TF_RETURN_IF_ERROR(context->allocate_output(1, {count}, &finite));
    const MeasureArguments arguments = {
        static_cast<const double*>(scale), static_cast<const bool*>(enabled),
        static_cast<double*>(sums->data()), static_cast<bool*>(finite->data())};
    return WithElementType(ElementTypeOf(type), [&](auto element) {
      using T = typename decltype(element)::type;
      std::vector<MeasuredTensor<T>> tensors;
      for (int i = 0; i < count; ++i) {
        const Tensor* const accumulator =
            accumulators.size() == 0 ? nullptr : accumulators[i]->tensor();
        tensors.push_back(
            {static_cast<const T*>(gradients[i].data()),
             accumulator == nullptr
                 ? nullptr
                 : static_cast<const ComputeType<T>*>(accumulator->data()),
             (accumulator ? *accumulator : gradients[i]).NumElements(),
             found[i]});
      }
      return MeasureAll(context, tensors, arguments);
    });
  }
};

[[maybe_unused]] const bool measuring_is_registered = [] {
  RegisterKernel<MeasureOp>("TfOpt>MeasureGradients", kKernelDevice,
                            {"accumulators"});
  return true;
}();

}  // namespace
}  // namespace tf_opt
