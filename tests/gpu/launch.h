// A step of the engine over arrays on the device, with its numbers there.
#ifndef TF_OPT_TESTS_GPU_LAUNCH_H_
#define TF_OPT_TESTS_GPU_LAUNCH_H_

#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "tests/gpu/cases.h"
#include "tests/gpu/device.h"
#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/gpu/dense_gpu_launch.h"

namespace tf_opt {

template <typename T, typename Case>
class Launch {
 public:
  using Hyperparameters = typename Case::Hyperparameters;

  // `slots` are all first slots, then all second ones.
  Launch(const Modes& modes, std::vector<int64_t> sizes,
         std::vector<void*> variables, std::vector<const void*> gradients,
         std::vector<void*> slots, int64_t rows)
      : modes_(modes),
        sizes_(std::move(sizes)),
        variables_(std::move(variables)),
        gradients_(std::move(gradients)),
        slots_(std::move(slots)),
        rows_(rows) {
    const std::size_t count = sizes_.size();
    numbers_ = AllocateOnDevice(8 * (kScalars + 1 + count));
    std::vector<double> weight_decay(count);
    for (std::size_t i = 0; i < count; ++i) weight_decay[i] = WeightDecay(i);
    CopyToDevice(Numbers() + kScalars + 1, weight_decay.data(), 8 * count);
    int64_t bytes = 0;
    Choose([&](auto chosen) {
      bytes = GpuRules<typename decltype(chosen)::type>::Bytes(count);
    });
    // What nobody writes must not happen to work.
    const std::vector<unsigned char> poison(bytes, 0xff);
    workspace_ = AllocateOnDevice(bytes);
    CopyToDevice(workspace_.get(), poison.data(), bytes);
  }

  static double WeightDecay(std::size_t i) { return 0.01 * (i % 10); }

  // Sets the numbers of the next steps, on the device.
  void Set(const Hyperparameters& hyperparameters, int64_t row) {
    std::vector<char> numbers(8 * (kScalars + 1));
    char* at = numbers.data();
    for (const auto& input : Case::kScalars) {
      std::memcpy(at, input.Address(hyperparameters), 8);
      at += 8;
    }
    std::memcpy(at, &row, 8);
    CopyToDevice(numbers_.get(), numbers.data(), numbers.size());
  }

  const char* operator()(void* stream) const {
    const char* error = nullptr;
    Choose([&](auto chosen) {
      using Rule = typename decltype(chosen)::type;
      GpuInputsOf<Rule> inputs;
      inputs.scalars.known = Case::At(1, modes_);
      const double* number = Numbers();
      for (const auto& input : Case::kScalars) {
        inputs.scalars.Add(input, number++);
      }
      if (rows_ > 0) {
        inputs.SetRow("batch_index", rows_,
                      reinterpret_cast<const int64_t*>(number));
      }
      inputs.weight_decay.at = number + 1;
      error = ApplyDenseGpu<T, Rule>(Tensors<Rule>(), inputs, workspace_.get(),
                                     stream);
    });
    return error;
  }

  int64_t launches() const {
    int64_t launches = 1;  // That makes the rules.
    Choose([&](auto chosen) {
      for (const auto& batch :
           PlanGpuBatches(Tensors<typename decltype(chosen)::type>())) {
        launches += batch.tiles() > 0;
      }
    });
    return launches;
  }

 private:
  static constexpr int kScalars = std::size(Case::kScalars);

  template <typename Use>
  void Choose(const Use& use) const {
    Case::template Choose<ComputeType<T>>(modes_, use);
  }

  double* Numbers() const { return static_cast<double*>(numbers_.get()); }

  template <typename Rule>
  std::vector<DenseTensor<T, Rule::kSlots>> Tensors() const {
    std::vector<DenseTensor<T, Rule::kSlots>> tensors(sizes_.size());
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      tensors[i].operands[kVariable] = variables_[i];
      tensors[i].operands[kGradient] = const_cast<void*>(gradients_[i]);
      for (int k = 0; k < Rule::kSlots; ++k) {
        tensors[i].operands[kFrameOperandCount + k] =
            slots_[k * sizes_.size() + i];
      }
      tensors[i].size = sizes_[i];
    }
    return tensors;
  }

  const Modes modes_;
  const std::vector<int64_t> sizes_;
  const std::vector<void*> variables_;
  const std::vector<const void*> gradients_;
  const std::vector<void*> slots_;
  const int64_t rows_;
  DeviceMemory numbers_, workspace_;
};

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_LAUNCH_H_
