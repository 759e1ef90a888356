// The kernel of MergeSlices, which is for CPUs: on a GPU the composed
// implementation merges slices.
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/cpu/merge_cpu.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/kernels/variable_access.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpInputList;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// Allocates and writes `rows`, the rows of the entries `firsts`.
template <typename Index>
absl::Status WriteRows(const RowEntries& entries,
                       const std::vector<int64_t>& firsts, int i,
                       tensorflow::OpOutputList* rows) {
  Tensor* output;
  TF_RETURN_IF_ERROR(
      rows->allocate(i, {static_cast<int64_t>(firsts.size())}, &output));
  auto* to = static_cast<Index*>(output->data());
  for (const int64_t k : firsts) *to++ = static_cast<Index>(entries.row(k));
  return absl::OkStatus();
}

template <typename T>
absl::Status Merge(OpKernelContext* context, const std::vector<Slices>& slices,
                   const SortedRows& sorted, const CpuThreads& threads) {
  OpInputList values;
  tensorflow::OpOutputList rows, sums;
  TF_RETURN_IF_ERROR(context->input_list("gradients", &values));
  TF_RETURN_IF_ERROR(context->output_list("rows", &rows));
  TF_RETURN_IF_ERROR(context->output_list("sums", &sums));
  std::vector<MergedSlices<T>> tables;
  for (int i = 0; i < values.size(); ++i) {
    const LaunchArray& array = slices[i].values;
    const SparseGradient<T> gradient = {static_cast<const T*>(array.data),
                                        array.width, sorted.tables[i]};
    std::vector<int64_t> firsts = FirstEntries(gradient);
    const auto write_rows = slices[i].indices.type == tensorflow::DT_INT64
                                ? WriteRows<int64_t>
                                : WriteRows<int32_t>;
    TF_RETURN_IF_ERROR(write_rows(gradient.entries, firsts, i, &rows));
    TensorShape shape = values[i].shape();
    TF_RETURN_IF_ERROR(shape.SetDimWithStatus(0, firsts.size()));
    Tensor* output;
    TF_RETURN_IF_ERROR(sums.allocate(i, shape, &output));
    tables.push_back(
        {gradient, std::move(firsts), static_cast<T*>(output->data())});
  }
  // As when gradients are applied; see launch_on_cpu.cc.
  const tensorflow::port::ScopedFlushDenormal flush_denormals;
  SumRows(tables, ChosenCpuTarget(), threads);
  return absl::OkStatus();
}

class MergeSlicesOp : public Kernel {
 public:
  explicit MergeSlicesOp(tensorflow::OpKernelConstruction* context)
      : Kernel(context) {
    OP_REQUIRES_OK(context, attributes_.Read(context->def()));
  }

 private:
  absl::Status Run(OpKernelContext* context) override {
    OpInputList values;
    TF_RETURN_IF_ERROR(context->input_list("gradients", &values));
    const Tensor* rows;
    TF_RETURN_IF_ERROR(context->input("table_rows", &rows));
    TF_RETURN_IF_ERROR(CheckLength("table_rows", "element", /*optional=*/false,
                                   values.size(), rows->NumElements()));
    const auto* const numbers = static_cast<const int64_t*>(rows->data());
    // Tables have the same shapes but for the rows, which aren't compared.
    std::vector<TensorShape> shapes;
    for (const Tensor& one : values) shapes.push_back(one.shape());
    std::vector<Slices> slices;
    TF_RETURN_IF_ERROR(FindSlices(context, attributes_, shapes, &slices));
    const CpuThreads threads = ThreadsOf(context);
    SortedRows sorted;
    TF_RETURN_IF_ERROR(SortRows(slices, {numbers, numbers + values.size()},
                                attributes_, threads, &sorted));
    return WithElementType(ElementTypeOf(values[0].dtype()), [&](auto element) {
      return Merge<typename decltype(element)::type>(context, slices, sorted,
                                                     threads);
    });
  }

  SliceAttributes attributes_;
};

[[maybe_unused]] const bool merging_is_registered = [] {
  RegisterKernel<MergeSlicesOp>("TfOpt>MergeSlices", "CPU", {});
  return true;
}();

}  // namespace
}  // namespace tf_opt
