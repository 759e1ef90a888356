// Steps over tensors on the device, stored in any way, beside the same steps on
// the host: the bits must be the same.
#ifndef TF_OPT_TESTS_GPU_STEPS_H_
#define TF_OPT_TESTS_GPU_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/gpu/arena.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/device.h"
#include "tests/gpu/launch.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/rules/description.h"

namespace tf_opt {

template <typename T, typename Case, typename Rule>
class Steps {
 public:
  // With `offset` 1 no array is aligned for vectors.
  Steps(const std::vector<int64_t>& sizes, int offset, bool special,
        bool framed = false, const Stored& stored = {})
      : layer_(offset * (Case::kLayers - 1)),
        model_(sizes, offset, framed, stored) {
    if (special) model_.AddSpecialNumbers();
    ForOperands([&](const Tensor& tensor, int k) {
      const int64_t element = tensor.ElementSize(k);
      const int64_t layer = tensor.size * element;
      arrays_.push_back(
          IsStacked(k) ? arena_.Add(layer, offset * element, layer_ * layer,
                                    (Case::kLayers - 1 - layer_) * layer)
                       : arena_.Add(layer, offset * element));
    });
    arena_.Allocate();
    std::size_t array = 0;
    ForOperands([&](const Tensor& tensor, int k) {
      std::memcpy(arena_.OnHost<char>(arrays_[array++]), tensor.operands[k],
                  tensor.size * tensor.ElementSize(k));
    });
    arena_.Upload();
    launch_ = std::make_unique<Launch<T, Case, Rule>>(TensorsOnDevice());
  }

  // Each of these takes a step and returns whether all is then as it should be:
  // a step that is launched,
  bool Launched(const Numbers<Case>& numbers) {
    launch_->Set(AtLayer(numbers));
    Require((*launch_)(nullptr));
    StepOnHost<T, Case, Rule>(model_.Tensors(), numbers);
    return EqualTheHost();
  }
  // one that was captured with other numbers,
  bool Replayed(const Numbers<Case>& numbers) {
    // What the host knows of a step, a graph can't change.
    Numbers<Case> other = numbers;
    other.hyperparameters.learning_rate = 0;
    other.frame.gradient_scale = 0;
    other.own = {};
    launch_->Set(other);
    Graph graph([this](void* stream) { return (*launch_)(stream); });
    launch_->Set(AtLayer(numbers));
    graph.Replay();
    StepOnHost<T, Case, Rule>(model_.Tensors(), numbers);
    return EqualTheHost();
  }
  // one that must write nothing.
  bool Refused(const Numbers<Case>& numbers) {
    launch_->Set(numbers);
    Require((*launch_)(nullptr));
    return EqualTheHost();
  }

  int64_t launches() const { return launch_->launches(); }

 private:
  using Tensor = DenseTensor<T>;

  static bool IsStacked(int operand) {
    return operand >= kFrameOperandCount &&
           kSlotsOf<Rule>[operand - kFrameOperandCount].is_stacked();
  }

  template <typename Use>
  void ForOperands(const Use& use) {
    for (const Tensor& tensor : model_.Tensors()) {
      for (int k = 0; k < kMostOperands; ++k) {
        if (tensor.operands[k] != nullptr) use(tensor, k);
      }
    }
  }

  std::vector<Tensor> TensorsOnDevice() {
    std::vector<Tensor> tensors = model_.Tensors();
    std::size_t array = 0;
    for (Tensor& tensor : tensors) {
      for (int k = 0; k < kMostOperands; ++k) {
        if (tensor.operands[k] == nullptr) continue;
        tensor.operands[k] =
            arena_.OnDevice<char>(arrays_[array++]) -
            (IsStacked(k) ? layer_ * tensor.size * tensor.ElementSize(k) : 0);
      }
    }
    return tensors;
  }

  Numbers<Case> AtLayer(Numbers<Case> numbers) const {
    numbers.layer = layer_;
    return numbers;
  }

  bool EqualTheHost() {
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

  // The model has this one of a stacked slot's layers.
  const int64_t layer_;
  DenseModel<T, Rule::kSlots> model_;
  Arena arena_;
  // Of each tensor the operands that it has.
  std::vector<std::size_t> arrays_;
  std::unique_ptr<Launch<T, Case, Rule>> launch_;
};

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_STEPS_H_
