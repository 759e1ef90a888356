#include "tf_opt/cc/xla/measure_call.h"

#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/denormal.h"
#include "tf_opt/cc/engines/cpu_target.h"
#include "tf_opt/cc/engines/measure_cpu.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/xla/ffi_call.h"
#include "tf_opt/cc/xla/measure_xla_op.h"

namespace tf_opt {
namespace {

template <typename T>
std::vector<Measure> MeasureAll(const FfiCall& call, int count,
                                bool has_accumulators, double scale) {
  using Element = typename StorageTypeOf<T>::type;
  std::vector<MeasuredTensor<Element>> tensors(count);
  for (int i = 0; i < count; ++i) {
    const FfiArray gradient = call.argument(i);
    tensors[i].gradient = static_cast<const Element*>(gradient.data);
    tensors[i].accumulator = has_accumulators
                                 ? static_cast<const ComputeType<Element>*>(
                                       call.argument(count + i).data)
                                 : nullptr;
    tensors[i].size = gradient.elements;
  }
  // As outside of XLA.
  const tensorflow::port::ScopedFlushDenormal flush_denormals;
  return MeasureGradients<Element>(tensors, scale, ChosenCpuTarget(),
                                   call.num_threads(), call.parallel_for());
}

absl::Status MeasureCall(const FfiCall& call) {
  int count = 0;
  bool has_accumulators = false;
  absl::Status status = call.GetAttr("N", &count);
  if (!status.ok()) return status;
  status = call.GetAttr("num_accumulators", &has_accumulators);
  if (!status.ok()) return status;
  const int numbers = has_accumulators ? 2 * count : count;
  if (call.argument_count() != numbers + 2 || call.result_count() != 2) {
    return OtherArguments();
  }
  const double scale = *static_cast<const double*>(call.argument(numbers).data);
  const bool enabled =
      *static_cast<const bool*>(call.argument(numbers + 1).data);
  std::vector<Measure> measures(count, {0, true});
  if (enabled) {
    const auto measure = [&](auto type) {
      measures =
          MeasureAll<decltype(type)>(call, count, has_accumulators, scale);
    };
    if (!WithElementType(call.argument(0).type, measure)) {
      return OtherArguments();
    }
  }
  for (int i = 0; i < count; ++i) {
    static_cast<double*>(call.result(0).data)[i] = measures[i].sum_of_squares;
    static_cast<bool*>(call.result(1).data)[i] = measures[i].finite;
  }
  return absl::OkStatus();
}

}  // namespace

bool RegisterMeasureForXla(const std::string& name) {
  return RegisterFfiFunction<MeasureCall>(name) && RegisterMeasureXlaOp(name);
}

}  // namespace tf_opt
