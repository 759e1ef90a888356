// The kernel of MergeSlices: that of the CPU or that of a GPU; see
// kKernelDevice. On a GPU the host doesn't learn how many rows occur: the
// results have room for all entries, and unused rows and zeros at their end.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/kernels/variable_access.h"
#if defined(TF_OPT_GPU_DEVICE)
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/kernels/gpu_kernel.h"
#else
#include "tensorflow/core/platform/denormal.h"
#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/cpu/merge_cpu.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#endif

namespace tf_opt {
namespace {

using ::tensorflow::OpInputList;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// Allocates the i-th rows, so many, and their sums; `values` are of their
// shape.
absl::Status Allocate(OpKernelContext* context, const OpInputList& values,
                      int i, int64_t count, void** rows, void** sums) {
  Tensor* output;
  TF_RETURN_IF_ERROR(context->allocate_output(i, {count}, &output));
  *rows = output->data();
  TensorShape shape = values[i].shape();
  TF_RETURN_IF_ERROR(shape.SetDimWithStatus(0, count));
  TF_RETURN_IF_ERROR(
      context->allocate_output(values.size() + i, shape, &output));
  *sums = output->data();
  return absl::OkStatus();
}

#if defined(TF_OPT_GPU_DEVICE)

// Merges slices of this type.
template <typename T>
absl::Status Merge(OpKernelContext* context, const OpInputList& values,
                   const std::vector<TableSlices>& slices, Refusal* report) {
  std::vector<SlicesToMerge> tables;
  for (int i = 0; i < values.size(); ++i) {
    SlicesToMerge& table = tables.emplace_back(SlicesToMerge{slices[i]});
    TF_RETURN_IF_ERROR(Allocate(context, values, i, table.entries(),
                                &table.merged_ids, &table.merged_values));
  }
  Tensor workspace;
  return CudaStatus(
      MergeSlicesGpu<T>(tables, report, QueueOf(context, &workspace)));
}

#else

// Merges slices of this type.
template <typename T>
absl::Status Merge(OpKernelContext* context, const OpInputList& values,
                   const std::vector<TableSlices>& slices,
                   const std::vector<SparseGradient>& gradients,
                   const CpuThreads& threads) {
  std::vector<MergedSlices<T> > tables;
  for (int i = 0; i < values.size(); ++i) {
    const SparseGradient& gradient = gradients[i];
    std::vector<int64_t> firsts = FirstEntries(gradient);
    void *rows, *sums;
    TF_RETURN_IF_ERROR(
        Allocate(context, values, i, firsts.size(), &rows, &sums));
    for (std::size_t k = 0; k < firsts.size(); ++k) {
      slices[i].WriteId(gradient.entries[firsts[k]].row, k, rows);
    }
    tables.push_back({gradient, std::move(firsts), static_cast<T*>(sums)});
  }
  // As when gradients are applied; see launch_on_cpu.cc.
  const tensorflow::port::ScopedFlushDenormal flush_denormals;
  SumRows(tables, ChosenCpuTarget(), threads);
  return absl::OkStatus();
}

#endif

class MergeSlicesOp : public Kernel {
 public:
  explicit MergeSlicesOp(tensorflow::OpKernelConstruction* context)
      : Kernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("tables", &tables_.names));
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
    std::vector<TableSlices> slices;
    TF_RETURN_IF_ERROR(FindSlices(context, tables_, shapes, &slices));
    for (int i = 0; i < values.size(); ++i) slices[i].rows = numbers[i];
#if defined(TF_OPT_GPU_DEVICE)
    TF_RETURN_IF_ERROR(CheckCounts(slices));
    Refusal* report = nullptr;
    TF_RETURN_IF_ERROR(report_.Open(
        context,
        [&](const Refusal& refusal) { return BadRowError(refusal, tables_); },
        &report));
    return WithElementType(ElementTypeOf(values[0].dtype()), [&](auto element) {
      return Merge<typename decltype(element)::type>(context, values, slices,
                                                     report);
    });
#else
    const CpuThreads threads = ThreadsOf(context);
    Tensor sorted_rows;
    std::vector<SparseGradient> gradients;
    TF_RETURN_IF_ERROR(
        SortRows(slices, tables_, threads, &sorted_rows, &gradients));
    return WithElementType(ElementTypeOf(values[0].dtype()), [&](auto element) {
      return Merge<typename decltype(element)::type>(context, values, slices,
                                                     gradients, threads);
    });
#endif
  }

  TableNames tables_;
#if defined(TF_OPT_GPU_DEVICE)
  GpuReport report_;
#endif
};

[[maybe_unused]] const bool merging_is_registered = [] {
  RegisterKernel<MergeSlicesOp>("TfOpt>MergeSlices", kKernelDevice,
                                {"table_rows"});
  return true;
}();

}  // namespace
}  // namespace tf_opt
