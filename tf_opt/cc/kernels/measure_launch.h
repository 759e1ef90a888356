// Inputs and outputs of TfOpt>MeasureGradients as an engine's arguments.
#ifndef TF_OPT_CC_KERNELS_MEASURE_LAUNCH_H_
#define TF_OPT_CC_KERNELS_MEASURE_LAUNCH_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/kernels/variable_access.h"

namespace tf_opt {

// Inputs of the op, looked up, locked and checked, and its allocated outputs. T
// is TensorFlow's type. It reads only the host's memory, whatever the device.
template <typename T>
class MeasureLaunch {
 public:
  using Storage = typename StorageTypeOf<T>::type;
  using Accumulator = ComputeType<Storage>;

  // After an error nothing may be launched. `shapes` are those of the
  // gradients' variables if they differ from the gradients' own.
  absl::Status Prepare(
      tensorflow::OpKernelContext* context,
      const std::vector<tensorflow::TensorShape>* shapes = nullptr) {
    const tensorflow::Tensor* scalar;
    TF_RETURN_IF_ERROR(FindScalar(context, "gradient_scale", &scalar));
    gradient_scale_ = static_cast<const double*>(scalar->data());
    TF_RETURN_IF_ERROR(FindScalar(context, "enabled", &scalar));
    enabled_ = static_cast<const bool*>(scalar->data());
    TF_RETURN_IF_ERROR(context->input_list("gradients", &gradients_));
    TF_RETURN_IF_ERROR(accumulators_.Lookup(context, "accumulators"));
    if (accumulators_.size() != 0 && accumulators_.size() != size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`accumulators` must be empty or have one variable for each of the ",
          size(), " `gradients`, got ", accumulators_.size()));
    }
    TF_RETURN_IF_ERROR(locks_.Lock({&accumulators_}, /*shared=*/true));
    for (int i = 0; i < accumulators_.size(); ++i) {
      TF_RETURN_IF_ERROR(CheckVariable(
          accumulators_, i, tensorflow::DataTypeToEnum<Accumulator>::v(),
          shapes == nullptr ? gradients_[i].shape() : (*shapes)[i],
          shapes == nullptr ? "gradients" : "variables"));
    }
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, {size()}, &sums_of_squares_));
    return context->allocate_output(1, {size()}, &finite_);
  }

  int size() const { return gradients_.size(); }

  // In the device's memory.
  const double* gradient_scale() const { return gradient_scale_; }
  const bool* enabled() const { return enabled_; }

  // The results, in the device's memory: one number for each gradient.
  double* sums_of_squares() const {
    return static_cast<double*>(sums_of_squares_->data());
  }
  bool* finite() const { return static_cast<bool*>(finite_->data()); }

  // Writes the results if they are in the host's memory.
  void Return(const std::vector<Measure>& measures) const {
    for (int i = 0; i < size(); ++i) {
      sums_of_squares()[i] = measures[i].sum_of_squares;
      finite()[i] = measures[i].finite;
    }
  }

  // Null if there is none.
  const Accumulator* accumulator(int i) const {
    return accumulators_.size() == 0 ? nullptr
                                     : static_cast<const Accumulator*>(
                                           accumulators_[i]->tensor()->data());
  }

  std::vector<MeasuredTensor<Storage>> Tensors() const {
    std::vector<MeasuredTensor<Storage>> tensors(size());
    for (int i = 0; i < size(); ++i) {
      tensors[i].gradient = static_cast<const Storage*>(gradients_[i].data());
      tensors[i].accumulator = accumulator(i);
      tensors[i].size = gradients_[i].NumElements();
    }
    return tensors;
  }

 private:
  const double* gradient_scale_ = nullptr;
  const bool* enabled_ = nullptr;
  tensorflow::Tensor* sums_of_squares_ = nullptr;
  tensorflow::Tensor* finite_ = nullptr;
  tensorflow::OpInputList gradients_;
  VariableList accumulators_;
  // Last, so that it unlocks before the variables are released.
  ScopedVariableLocks locks_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_MEASURE_LAUNCH_H_
