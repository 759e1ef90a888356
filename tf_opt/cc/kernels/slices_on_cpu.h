// Applies or measures slices in the host's memory: checks and sorts their rows
// and passes them to an engine.
#ifndef TF_OPT_CC_KERNELS_SLICES_ON_CPU_H_
#define TF_OPT_CC_KERNELS_SLICES_ON_CPU_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/measure_sparse_cpu.h"
#include "tf_opt/cc/engines/cpu/parallel_for.h"
#include "tf_opt/cc/engines/cpu/sparse_cpu.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/apply_on_cpu.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/scratch.h"
#include "tf_opt/cc/kernels/sorted_slices.h"

namespace tf_opt {

// Applies the rule and its frame to each table of a launch. After an error
// nothing has been written.
template <typename Element, typename Rule>
absl::Status ApplySlices(const ApplyLaunch& launch,
                         const CpuArguments<Element, Rule>& arguments,
                         const std::vector<RowSlices>& slices,
                         const SliceAttributes& attributes, int num_threads,
                         const ParallelFor& parallel_for, Scratch* scratch) {
  std::vector<SparseGradient<Element>> gradients;
  TF_RETURN_IF_ERROR(SortSlices(
      slices, attributes,
      [&](int i) { return launch.array(kVariable, i).rows; }, num_threads,
      parallel_for, scratch, &gradients));
  ApplySparse(arguments.tensors, gradients, arguments.rules, attributes.lazy(),
              ChosenCpuTarget(), num_threads, parallel_for, arguments.update);
  return absl::OkStatus();
}

// Measures the gradients of tables with this many rows; accumulator_of(i) is
// the i-th accumulator.
template <typename Element, typename AccumulatorOf>
absl::Status MeasureSlices(const std::vector<RowSlices>& slices,
                           const SliceAttributes& attributes,
                           const std::vector<int64_t>& rows,
                           const AccumulatorOf& accumulator_of, double scale,
                           int num_threads, const ParallelFor& parallel_for,
                           Scratch* scratch, std::vector<Measure>* measures) {
  std::vector<SparseGradient<Element>> gradients;
  TF_RETURN_IF_ERROR(SortSlices(
      slices, attributes, [&](int i) { return rows[i]; }, num_threads,
      parallel_for, scratch, &gradients));
  const bool scale_is_finite =
      std::isfinite(static_cast<ComputeType<Element>>(scale));
  std::vector<MeasuredTable<Element>> tables;
  std::vector<std::size_t> not_finite;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    tables.push_back({&gradients[i], accumulator_of(static_cast<int>(i)),
                      rows[i] * slices[i].width, attributes.lazy()});
    // The scale turns zeros into NaN, and some rows are zeros: no need to read
    // a table that may be larger than memory.
    if (!scale_is_finite && !attributes.lazy() && slices[i].width > 0 &&
        gradients[i].count() < rows[i]) {
      not_finite.push_back(i);
      gradients[i].entries = RowEntries();
      tables[i].size = 0;
      tables[i].accumulator = nullptr;
    }
  }
  // As when gradients are applied: TensorFlow's pool threads flush denormals to
  // zero, and this thread must give the same numbers.
  const tensorflow::port::ScopedFlushDenormal flush_denormals;
  *measures = MeasureSparseGradients<Element>(tables, scale, ChosenCpuTarget(),
                                              num_threads, parallel_for);
  for (const std::size_t i : not_finite) {
    (*measures)[i] = {std::numeric_limits<double>::quiet_NaN(), false};
  }
  return absl::OkStatus();
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SLICES_ON_CPU_H_
