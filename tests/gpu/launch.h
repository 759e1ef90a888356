// A step of the engine over arrays on the device, with its numbers there.
#ifndef TF_OPT_TESTS_GPU_LAUNCH_H_
#define TF_OPT_TESTS_GPU_LAUNCH_H_

#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "tests/gpu/cases.h"
#include "tests/gpu/device.h"
#include "tests/gpu/engine.h"

namespace tf_opt {

template <typename Case>
class Launch {
 public:
  using Hyperparameters = typename Case::Hyperparameters;

  // `slots` are all first slots, then all second ones.
  Launch(const char* dtype, const Modes& modes, std::vector<int64_t> sizes,
         std::vector<void*> variables, std::vector<const void*> gradients,
         std::vector<void*> slots, int64_t rows)
      : sizes_(std::move(sizes)),
        variables_(std::move(variables)),
        gradients_(std::move(gradients)),
        slots_(std::move(slots)) {
    const std::size_t count = sizes_.size();
    numbers_ = AllocateOnDevice(8 * (kScalars + 1 + count));
    double* const numbers = static_cast<double*>(numbers_.get());
    std::vector<double> weight_decay(count);
    for (std::size_t i = 0; i < count; ++i) weight_decay[i] = WeightDecay(i);
    CopyToDevice(numbers + kScalars + 1, weight_decay.data(), 8 * count);
    for (int k = 0; k < kScalars; ++k) scalars_.push_back(numbers + k);

    step_.optimizer = Case::kName;
    step_.dtype = dtype;
    step_.amsgrad = modes.amsgrad;
    step_.epsilon_hat = modes.epsilon_hat;
    step_.l2 = modes.l2;
    step_.maximize = modes.maximize;
    step_.count = count;
    step_.sizes = sizes_.data();
    step_.variables = variables_.data();
    step_.gradients = gradients_.data();
    step_.slots = slots_.data();
    step_.scalars = scalars_.data();
    step_.weight_decay = numbers + kScalars + 1;
    if (rows > 0) {
      step_.row = reinterpret_cast<const int64_t*>(numbers + kScalars);
      step_.rows = rows;
    }
    const int64_t bytes = TfOptWorkspaceBytes(&step_);
    // What nobody writes must not happen to work.
    const std::vector<unsigned char> poison(bytes, 0xff);
    workspace_ = AllocateOnDevice(bytes);
    CopyToDevice(workspace_.get(), poison.data(), bytes);
    step_.workspace = workspace_.get();
  }

  // What the engine gets points into it.
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

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
    return TfOptApply(&step_, stream);
  }
  int64_t launches() const { return TfOptLaunches(&step_); }

 private:
  static constexpr int kScalars = std::size(Case::kScalars);

  std::vector<int64_t> sizes_;
  std::vector<void*> variables_;
  std::vector<const void*> gradients_;
  std::vector<void*> slots_;
  std::vector<const void*> scalars_;
  DeviceMemory numbers_, workspace_;
  TfOptStep step_ = {};
};

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_LAUNCH_H_
