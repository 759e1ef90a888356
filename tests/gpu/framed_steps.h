// A step with all that surrounds its rule, over tensors that are stored in any
// way, beside what its threads do done on the host, one after the other: the
// bits must be the same.
#ifndef TF_OPT_TESTS_GPU_FRAMED_STEPS_H_
#define TF_OPT_TESTS_GPU_FRAMED_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/gpu/arena.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/device.h"
#include "tf_opt/cc/engines/gpu/dense_gpu_launch.h"
#include "tf_opt/cc/engines/gpu/emulated_convert-inl.h"
#include "tf_opt/cc/engines/gpu/framed_elements.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"
#include "tf_opt/cc/engines/testing/dense_model.h"

namespace tf_opt {

template <typename T, typename Case, typename Rule>
class FramedSteps {
 public:
  // From `offset` 1 on no array is aligned for vectors.
  FramedSteps(const Modes& modes, const FrameInputs& frame,
              const Stored& stored, const std::vector<int64_t>& sizes,
              int offset, bool special)
      : hyperparameters_(Case::At(2, modes)),
        frame_(frame),
        model_(sizes, offset, /*framed=*/true, stored) {
    if (special) model_.AddSpecialNumbers();
    hyperparameters_at_ = arena_.Add(sizeof(hyperparameters_), 0);
    frame_at_ = arena_.Add(sizeof(frame_), 0);
    workspace_ = arena_.Add(GpuRules<Rule>::Bytes(sizes.size()), 0);
    own_ = arena_.Add(sizeof(VariableInputs), 0);
    ForOperands([&](const Tensor& tensor, int k) {
      const int64_t bytes = tensor.ElementSize(k);
      arrays_.push_back(arena_.Add(tensor.size * bytes, offset * bytes));
    });
    arena_.Allocate();
    std::memcpy(arena_.OnHost<char>(hyperparameters_at_), &hyperparameters_,
                sizeof(hyperparameters_));
    std::memcpy(arena_.OnHost<char>(frame_at_), &frame_, sizeof(frame_));
    std::memcpy(arena_.OnHost<char>(own_), &kOwn, sizeof(kOwn));
    std::size_t array = 0;
    ForOperands([&](const Tensor& tensor, int k) {
      std::memcpy(arena_.OnHost<char>(arrays_[array++]), tensor.operands[k],
                  tensor.size * tensor.ElementSize(k));
    });
    arena_.Upload();
  }

  // Puts the launches into a stream.
  const char* operator()(void* stream) {
    return ApplyDenseGpu<T, Rule>(OnDevice(), Inputs(),
                                  arena_.OnDevice<char>(workspace_), stream);
  }

  // After that.
  bool EqualTheHost() {
    const FramedRule<Rule> rule(typename Rule::Step(hyperparameters_), frame_,
                                kOwn);
    for (const Tensor& tensor : model_.Tensors()) {
      for (int64_t i = 0; i < tensor.size; ++i) {
        if (frame_.update) {
          Elements::UpdateAt(rule, tensor, i);
        } else {
          Elements::AccumulateAt(rule, tensor, i);
        }
      }
    }
    WaitForDevice();
    arena_.Download();
    bool equal = arena_.PaddingIsUntouched();
    std::size_t array = 0;
    ForOperands([&](const Tensor& tensor, int k) {
      equal =
          std::memcmp(arena_.OnHost<char>(arrays_[array++]), tensor.operands[k],
                      tensor.size * tensor.ElementSize(k)) == 0 &&
          equal;
    });
    return equal;
  }

 private:
  using Tensor = DenseTensor<T, Rule::kSlots>;
  using Elements = FramedElements<EmulatedConvert, T, Rule>;

  // The same for all variables.
  static constexpr VariableInputs kOwn = {
      .weight_decay = 0.1,
      .learning_rate_factor = 1.5,
      .gradient_factor = 1.25,
      .number = 5,
  };

  template <typename Use>
  void ForOperands(const Use& use) {
    for (const Tensor& tensor : model_.Tensors()) {
      for (int k = 0; k < Tensor::kOperands; ++k) {
        if (tensor.operands[k] != nullptr) use(tensor, k);
      }
    }
  }

  std::vector<Tensor> OnDevice() {
    std::vector<Tensor> tensors = model_.Tensors();
    std::size_t array = 0;
    for (Tensor& tensor : tensors) {
      for (void*& operand : tensor.operands) {
        if (operand != nullptr) operand = arena_.OnDevice<T>(arrays_[array++]);
      }
    }
    return tensors;
  }

  GpuInputsOf<Rule> Inputs() {
    GpuInputsOf<Rule> inputs;
    inputs.scalars.known = hyperparameters_;
    inputs.frame.known = frame_;
    AddTo(&inputs.scalars, Case::kScalars, hyperparameters_,
          hyperparameters_at_);
    AddTo(&inputs.frame, kFrameScalars, frame_, frame_at_);
    const auto own = [this](const double VariableInputs::* number) {
      const auto* const at = reinterpret_cast<const char*>(&(kOwn.*number));
      return GpuVector{reinterpret_cast<const double*>(
                           arena_.OnDevice<char>(own_) +
                           (at - reinterpret_cast<const char*>(&kOwn))),
                       /*one_for_all=*/true};
    };
    inputs.weight_decay = own(&VariableInputs::weight_decay);
    inputs.learning_rate_factors = own(&VariableInputs::learning_rate_factor);
    inputs.gradient_factors = own(&VariableInputs::gradient_factor);
    inputs.variable_numbers = own(&VariableInputs::number);
    return inputs;
  }

  // Each where it lies in the device's copy of `numbers`.
  template <typename To, typename Scalars, typename Numbers>
  void AddTo(To* to, const Scalars& scalars, const Numbers& numbers,
             std::size_t copy) {
    for (const auto& input : scalars) {
      const auto* const at = static_cast<const char*>(input.Address(numbers));
      to->Add(input, arena_.OnDevice<char>(copy) +
                         (at - reinterpret_cast<const char*>(&numbers)));
    }
  }

  const typename Case::Hyperparameters hyperparameters_;
  const FrameInputs frame_;
  DenseModel<T, Rule::kSlots> model_;
  Arena arena_;
  std::size_t hyperparameters_at_, frame_at_, own_, workspace_;
  // Of each tensor the operands that it has.
  std::vector<std::size_t> arrays_;
};

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_FRAMED_STEPS_H_
