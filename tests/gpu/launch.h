// A step of the engine over tensors on the device, with its numbers there, and
// the same step on the host.
#ifndef TF_OPT_TESTS_GPU_LAUNCH_H_
#define TF_OPT_TESTS_GPU_LAUNCH_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/gpu/device.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/emulated_convert-inl.h"
#include "tf_opt/cc/engines/gpu/gpu_rules.h"

namespace tf_opt {

// The numbers of a step.
template <typename Case>
struct Numbers {
  typename Case::Hyperparameters hyperparameters;
  FrameInputs frame;
  // The same for all variables, except for the weight decay.
  VariableInputs own;
  int64_t layer = 0;  // Of the stacked slot, if there is one.
};

inline double WeightDecayOf(std::size_t variable) {
  return 0.01 * (variable % 10);
}

template <typename T, typename Case, typename Rule>
class Launch {
 public:
  using Tensors = std::vector<DenseTensor<T>>;

  explicit Launch(Tensors tensors)
      : tensors_(std::move(tensors)),
        numbers_(AllocateOnDevice(sizeof(known_))),
        weight_decay_(AllocateOnDevice(tensors_.size() * sizeof(double))) {
    std::vector<double> weight_decay(tensors_.size());
    for (std::size_t i = 0; i < weight_decay.size(); ++i) {
      weight_decay[i] = WeightDecayOf(i);
    }
    CopyToDevice(weight_decay_.get(), weight_decay.data(),
                 weight_decay.size() * sizeof(double));
    // What nobody writes must not happen to work.
    const std::vector<unsigned char> poison(
        GpuRules<Rule>::Bytes(tensors_.size()), 0xff);
    workspace_ = AllocateOnDevice(poison.size());
    CopyToDevice(workspace_.get(), poison.data(), poison.size());
  }

  // Sets the numbers of the next steps, on the device.
  void Set(const Numbers<Case>& numbers) {
    known_ = numbers;
    CopyToDevice(numbers_.get(), &known_, sizeof(known_));
  }

  // Puts a step into a stream. Returns null, or what is wrong.
  const char* operator()(void* stream) const {
    GpuInputsOf<Rule> inputs;
    inputs.scalars.known = known_.hyperparameters;
    for (const auto& input : Case::kScalars) {
      inputs.scalars.Add(input,
                         OnDevice(input.Address(known_.hyperparameters)));
    }
    inputs.frame.known = known_.frame;
    for (const auto& input : kFrameScalars) {
      inputs.frame.Add(input, OnDevice(input.Address(known_.frame)));
    }
    const auto for_all = [this](const double& number) {
      return PerVariable{static_cast<const double*>(OnDevice(&number)),
                         /*one_for_all=*/true};
    };
    inputs.variables = {{{static_cast<const double*>(weight_decay_.get())},
                         for_all(known_.own.learning_rate_factor),
                         for_all(known_.own.gradient_factor),
                         for_all(known_.own.number)}};
    if (Case::kLayers > 0) {
      inputs.layer =
          GpuLayer(Case::LayerInput(), Case::kLayers,
                   static_cast<const int64_t*>(OnDevice(&known_.layer)));
    }
    return ApplyDenseGpu<T, Rule>(tensors_, inputs, workspace_.get(), stream);
  }

  int64_t launches() const {
    int64_t launches = 1;  // That makes the rules.
    for (const auto& batch : PlanGpuBatches(tensors_)) {
      launches += batch.tiles() > 0;
    }
    return launches;
  }

 private:
  // Where the device has this member of known_.
  const void* OnDevice(const void* member) const {
    return static_cast<const char*>(numbers_.get()) +
           (static_cast<const char*>(member) -
            reinterpret_cast<const char*>(&known_));
  }

  const Tensors tensors_;
  Numbers<Case> known_;
  DeviceMemory numbers_, weight_decay_, workspace_;
};

// The same step over tensors on the host, with the layer of a stacked slot in
// its place.
template <typename T, typename Case, typename Rule>
void StepOnHost(const std::vector<DenseTensor<T>>& tensors,
                const Numbers<Case>& numbers) {
  using Elements = FramedElements<EmulatedConvert, T, Rule>;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    VariableInputs own = numbers.own;
    own.weight_decay = WeightDecayOf(i);
    const FramedRule<Rule> rule(typename Rule::Scalars(numbers.hyperparameters),
                                numbers.frame, own);
    for (int64_t j = 0; j < tensors[i].size; ++j) {
      const T gradient = tensors[i].gradient()[j];
      if (numbers.frame.update) {
        GpuPack<T, 1> pack;
        pack.elements[0] = gradient;
        Elements::template UpdatePack<1>(rule, tensors[i], j, pack);
      } else {
        Elements::AccumulateAt(rule, tensors[i], j,
                               EmulatedConvert::Widen(gradient));
      }
    }
  }
}

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_LAUNCH_H_
