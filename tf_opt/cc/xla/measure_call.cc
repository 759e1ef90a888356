#include "tf_opt/cc/xla/measure_call.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/cpu_target.h"
#include "tf_opt/cc/engines/measure_cpu.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/scratch.h"
#include "tf_opt/cc/kernels/slices_on_cpu.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/xla/ffi_call.h"
#include "tf_opt/cc/xla/measure_xla_op.h"
#include "tf_opt/cc/xla/slices_of_call.h"

namespace tf_opt {
namespace {

// What a call has besides gradients.
struct Arguments {
  int count;
  int64_t accumulators;  // The number of the first one; or -1.
  double scale;
};

template <typename Element>
const ComputeType<Element>* AccumulatorOf(const FfiCall& call,
                                          const Arguments& arguments, int i) {
  return arguments.accumulators < 0
             ? nullptr
             : static_cast<const ComputeType<Element>*>(
                   call.argument(arguments.accumulators + i).data);
}

template <typename Element>
std::vector<Measure> MeasureDense(const FfiCall& call,
                                  const Arguments& arguments,
                                  const int64_t* counts) {
  std::vector<MeasuredTensor<Element>> tensors(arguments.count);
  for (int i = 0; i < arguments.count; ++i) {
    const FfiArray gradient = call.argument(i);
    tensors[i].gradient = static_cast<const Element*>(gradient.data);
    tensors[i].accumulator = AccumulatorOf<Element>(call, arguments, i);
    tensors[i].size = counts[i];
  }
  // As outside of XLA.
  const tensorflow::port::ScopedFlushDenormal flush_denormals;
  return MeasureGradients<Element>(tensors, arguments.scale, ChosenCpuTarget(),
                                   call.num_threads(), call.parallel_for());
}

template <typename Element>
absl::Status MeasureSparse(const FfiCall& call, const Arguments& arguments,
                           const SliceAttributes& attributes,
                           const std::vector<RowSlices>& slices,
                           std::vector<Measure>* measures) {
  std::vector<int64_t> rows;
  TF_RETURN_IF_ERROR(call.GetAttr("rows", &rows));
  HeapScratch scratch;
  return MeasureSlices<Element>(
      slices, attributes, rows,
      [&](int i) { return AccumulatorOf<Element>(call, arguments, i); },
      arguments.scale, call.num_threads(), call.parallel_for(), &scratch,
      measures);
}

template <bool kSparse>
absl::Status MeasureCall(const FfiCall& call) {
  int count = 0;
  bool has_accumulators = false;
  TF_RETURN_IF_ERROR(call.GetAttr("N", &count));
  TF_RETURN_IF_ERROR(call.GetAttr("num_accumulators", &has_accumulators));
  const int64_t dense = kSparse ? 0 : count;
  const int64_t scale = dense + (has_accumulators ? count : 0);
  const int64_t slices_begin = scale + 2;
  if (call.argument_count() < slices_begin || call.result_count() != 2) {
    return OtherArguments();
  }
  SliceAttributes attributes;
  std::vector<RowSlices> slices;
  if constexpr (kSparse) {
    TF_RETURN_IF_ERROR(attributes.Read(call));
    TF_RETURN_IF_ERROR(
        FindSlices(call, attributes, slices_begin, count, &slices));
  } else if (call.argument_count() != slices_begin + 1) {
    return OtherArguments();
  }
  std::vector<Measure> measures(count, {0, true});
  if (*static_cast<const bool*>(call.argument(scale + 1).data)) {
    const Arguments arguments = {
        count, has_accumulators ? dense : -1,
        *static_cast<const double*>(call.argument(scale).data)};
    absl::Status status;
    const auto measure = [&](auto type) {
      using Element = typename StorageTypeOf<decltype(type)>::type;
      if constexpr (kSparse) {
        status = MeasureSparse<Element>(call, arguments, attributes, slices,
                                        &measures);
      } else {
        const void* const counts = call.argument(slices_begin).data;
        measures = MeasureDense<Element>(call, arguments,
                                         static_cast<const int64_t*>(counts));
      }
    };
    const FfiArray gradient = call.argument(kSparse ? slices_begin : 0);
    if (!WithElementType(gradient.type, measure)) return OtherArguments();
    if (!status.ok()) return status;
  }
  for (int i = 0; i < count; ++i) {
    static_cast<double*>(call.result(0).data)[i] = measures[i].sum_of_squares;
    static_cast<bool*>(call.result(1).data)[i] = measures[i].finite;
  }
  return absl::OkStatus();
}

}  // namespace

bool RegisterMeasureForXla(const std::string& name,
                           const std::string& sparse_name) {
  return RegisterFfiFunction<MeasureCall<false>>(name) &&
         RegisterMeasureXlaOp(name, /*sparse=*/false) &&
         RegisterFfiFunction<MeasureCall<true>>(sparse_name) &&
         RegisterMeasureXlaOp(sparse_name, /*sparse=*/true);
}

}  // namespace tf_opt
