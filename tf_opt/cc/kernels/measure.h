// Measuring gradients.
#ifndef TF_OPT_CC_KERNELS_MEASURE_H_
#define TF_OPT_CC_KERNELS_MEASURE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/kernels/cpu_threads.h"
#include "tf_opt/cc/kernels/launch_array.h"
#include "tf_opt/cc/kernels/slices.h"

namespace tf_opt {

// Inputs and results, in the device's memory.
struct MeasureLaunch {
  // Null if there is none.
  template <typename Element>
  const ComputeType<Element>* accumulator(std::size_t i) const {
    if (accumulators.empty()) return nullptr;
    return static_cast<const ComputeType<Element>*>(accumulators[i].data);
  }

  // Dense gradients for an engine.
  template <typename Element>
  std::vector<MeasuredTensor<Element>> Tensors() const {
    std::vector<MeasuredTensor<Element>> tensors;
    tensors.reserve(gradients.size());
    for (const LaunchArray& gradient : gradients) {
      tensors.push_back({static_cast<const Element*>(gradient.data),
                         accumulator<Element>(tensors.size()),
                         gradient.elements()});
    }
    return tensors;
  }

  tensorflow::DataType type = tensorflow::DT_INVALID;  // Of the gradients.
  std::vector<LaunchArray> gradients;                  // Dense ones, or
  std::vector<Slices> slices;                          // sparse ones, of tables
  std::vector<int64_t> rows;                           // with this many rows.
  std::vector<LaunchArray> accumulators;
  const double* gradient_scale = nullptr;
  const bool* enabled = nullptr;
  // The results: one number for each gradient.
  double* sums_of_squares = nullptr;
  bool* finite = nullptr;
};

// Measures gradients in the host's memory.
absl::Status MeasureOnCpu(const MeasureLaunch& launch,
                          const SliceAttributes& attributes,
                          const CpuThreads& threads);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_MEASURE_H_
