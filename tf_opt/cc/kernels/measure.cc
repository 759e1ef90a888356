#include "tf_opt/cc/kernels/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/measure_cpu.h"
#include "tf_opt/cc/engines/cpu/measure_sparse_cpu.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {
namespace {

template <typename Element>
absl::Status MeasureSlices(const MeasureLaunch& launch, double scale,
                           const SliceAttributes& attributes,
                           const CpuThreads& threads,
                           std::vector<Measure>* measures) {
  const std::vector<int64_t>& rows = launch.rows;
  SortedRows sorted;
  TF_RETURN_IF_ERROR(
      SortRows(launch.slices, rows, attributes, threads, &sorted));
  std::vector<SparseGradient<Element>> gradients;
  gradients.reserve(launch.slices.size());
  for (const Slices& one : launch.slices) {
    gradients.push_back({static_cast<const Element*>(one.values.data),
                         one.values.width, sorted.tables[gradients.size()]});
  }
  const bool scale_is_finite =
      std::isfinite(static_cast<ComputeType<Element>>(scale));
  std::vector<MeasuredTable<Element>> tables;
  std::vector<std::size_t> not_finite;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const int64_t width = gradients[i].width;
    tables.push_back({&gradients[i], launch.accumulator<Element>(i),
                      rows[i] * width, attributes.lazy()});
    // The scale turns zeros into NaN, and some rows are zeros: no need to read
    // a table that may be larger than memory.
    if (!scale_is_finite && !attributes.lazy() && width > 0 &&
        gradients[i].count() < rows[i]) {
      not_finite.push_back(i);
      gradients[i].entries = RowEntries();
      tables[i].size = 0;
      tables[i].accumulator = nullptr;
    }
  }
  *measures = MeasureSparseGradients<Element>(
      tables, scale, ChosenCpuTarget(), threads.count, threads.parallel_for);
  for (const std::size_t i : not_finite) {
    (*measures)[i] = {std::numeric_limits<double>::quiet_NaN(), false};
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureOnCpu(const MeasureLaunch& launch,
                          const SliceAttributes& attributes,
                          const CpuThreads& threads) {
  std::vector<Measure> measures(
      std::max(launch.gradients.size(), launch.slices.size()), {0, true});
  // As when gradients are applied: TensorFlow's pool threads flush denormals to
  // zero, and this thread must give the same numbers.
  const tensorflow::port::ScopedFlushDenormal flush_denormals;
  if (ReadOnce(launch.enabled)) {
    const double scale = ReadOnce(launch.gradient_scale);
    TF_RETURN_IF_ERROR(WithStorageType(launch.type, [&](auto element) {
      using Element = typename decltype(element)::type;
      if (attributes.sparse()) {
        return MeasureSlices<Element>(launch, scale, attributes, threads,
                                      &measures);
      }
      measures = MeasureGradients<Element>(launch.Tensors<Element>(), scale,
                                           ChosenCpuTarget(), threads.count,
                                           threads.parallel_for);
      return absl::OkStatus();
    }));
  }
  for (std::size_t i = 0; i < measures.size(); ++i) {
    launch.sums_of_squares[i] = measures[i].sum_of_squares;
    launch.finite[i] = measures[i].finite;
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
