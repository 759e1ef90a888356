// What the engine measures of gradients on a device, against the bits that
// measure_model.h expects.
#ifndef TF_OPT_TESTS_GPU_MEASURES_H_
#define TF_OPT_TESTS_GPU_MEASURES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/gpu/arena.h"
#include "tests/gpu/device.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/testing/measure_model.h"

namespace tf_opt {

// Tensors on the device, the same as on the host, with their arguments and
// results.
template <typename T>
class DeviceMeasures {
 public:
  using V = ComputeType<T>;

  // `tensors` must outlive this.
  DeviceMeasures(const std::vector<MeasuredTensor<T>>& tensors, double scale,
                 bool enabled, bool unaligned)
      : tensors_(tensors), scale_(scale), enabled_(enabled) {
    const auto add = [&](std::size_t bytes, std::size_t element) {
      return arena_.Add(bytes, unaligned ? element : 0);
    };
    for (const auto& tensor : tensors) {
      gradients_.push_back(add(tensor.size * sizeof(T), sizeof(T)));
      if (tensor.accumulator == nullptr) continue;
      accumulators_.push_back(add(tensor.size * sizeof(V), sizeof(V)));
    }
    scale_at_ = arena_.Add(sizeof(double));
    enabled_at_ = arena_.Add(sizeof(bool));
    sums_ = arena_.Add(tensors.size() * sizeof(double));
    finite_ = arena_.Add(tensors.size() * sizeof(bool));
    workspace_ = arena_.Add(MeasureWorkspaceBytes(ForEngine()));
    arena_.Allocate();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::copy_n(tensors[i].gradient, tensors[i].size,
                  arena_.template OnHost<T>(gradients_[i]));
      if (tensors[i].accumulator == nullptr) continue;
      std::copy_n(tensors[i].accumulator, tensors[i].size,
                  arena_.template OnHost<V>(accumulators_[i]));
    }
    *arena_.template OnHost<double>(scale_at_) = scale;
    *arena_.template OnHost<bool>(enabled_at_) = enabled;
    arena_.Upload();
  }

  // Puts the launches into a stream.
  const char* operator()(void* stream) {
    std::vector<GpuMeasuredTensor<T>> tensors = ForEngine();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      tensors[i].gradient = arena_.template OnDevice<T>(gradients_[i]);
      if (accumulators_.empty()) continue;
      tensors[i].accumulator = arena_.template OnDevice<V>(accumulators_[i]);
    }
    return MeasureGradientsGpu<T>(
        tensors,
        {arena_.template OnDevice<double>(scale_at_),
         arena_.template OnDevice<bool>(enabled_at_),
         arena_.template OnDevice<double>(sums_),
         arena_.template OnDevice<bool>(finite_)},
        arena_.template OnDevice<unsigned char>(workspace_), stream);
  }

  // After that: whether the results are those expected, to the bit.
  bool AreRight() {
    WaitForDevice();
    arena_.Download();
    bool right = arena_.PaddingIsUntouched();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Measure expected =
          enabled_ ? ExpectedMeasure(tensors_[i], scale_) : Measure{0, true};
      right = right &&
              Measure{arena_.template OnHost<double>(sums_)[i],
                      arena_.template OnHost<bool>(finite_)[i]} == expected;
    }
    return right;
  }

 private:
  // The tensors for the engine, with the host's arrays.
  std::vector<GpuMeasuredTensor<T>> ForEngine() const {
    std::vector<GpuMeasuredTensor<T>> tensors;
    for (const auto& tensor : tensors_) tensors.push_back({tensor});
    return tensors;
  }

  const std::vector<MeasuredTensor<T>>& tensors_;
  const double scale_;
  const bool enabled_;
  Arena arena_;
  std::vector<std::size_t> gradients_, accumulators_;
  std::size_t scale_at_, enabled_at_, sums_, finite_, workspace_;
};

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_MEASURES_H_
