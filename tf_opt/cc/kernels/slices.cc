#include "tf_opt/cc/kernels/slices.h"

#include <algorithm>

#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_opt {
namespace {

using ::tensorflow::TensorShape;

// Checks that the i-th array of the list `list` is a vector; errors call the
// table `name`.
absl::Status CheckIsVector(const std::string& list, int i,
                           const std::string& name, const TensorShape& found) {
  if (found.dims() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`", list, "[", i, "]`", name,
                   " must be a vector, got shape ", found.DebugString()));
}

// Checks slices against the shape `table` of the i-th variable.
absl::Status CheckSliceShapes(int i, const std::string& name,
                              const TensorShape& table,
                              const TensorShape& values,
                              const TensorShape& indices) {
  if (table.dims() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`variables[", i, "]`", name,
        " must have rows to have a sparse gradient, got a scalar"));
  }
  TF_RETURN_IF_ERROR(CheckIsVector("indices", i, name, indices));
  if (DimensionsFit(values, 1, table, 1) &&
      values.dim_size(0) == indices.dim_size(0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "`gradients[", i, "]`", name, " must have one row of `variables[", i,
      "]`, shape ", table.DebugString(), ", for each of `indices[", i,
      "]`, shape ", indices.DebugString(), ", got shape ",
      values.DebugString()));
}

// Sorts the entries of the i-th table in `entries`, which has room for twice as
// many.
Refusal SortEntries(int i, const TableSlices& slices, RowEntry* entries,
                    SparseGradient* sorted) {
  const int64_t count = slices.entries();
  for (int64_t k = 0; k < count; ++k) {
    const int64_t row = slices.IdOf(k);
    if (row < 0 || row >= slices.rows) return slices.RefusalOf(i, k);
    entries[k] = {static_cast<uint32_t>(row),
                  k < slices.count ? static_cast<uint32_t>(k) : kNoValues};
  }
  *sorted = {slices.values, slices.width,
             SortByRow(slices.rows, count, entries, entries + count), count};
  return {};
}

}  // namespace

absl::Status FindSlices(tensorflow::OpKernelContext* context,
                        const TableNames& names,
                        const std::vector<tensorflow::TensorShape>& tables,
                        std::vector<TableSlices>* slices) {
  tensorflow::OpInputList values, indices, more_rows;
  TF_RETURN_IF_ERROR(context->input_list("gradients", &values));
  TF_RETURN_IF_ERROR(context->input_list("indices", &indices));
  TF_RETURN_IF_ERROR(context->input_list("accumulated_rows", &more_rows));
  TF_RETURN_IF_ERROR(CheckLength("accumulated_rows", "vector",
                                 /*optional=*/true, values.size(),
                                 more_rows.size()));
  for (int i = 0; i < values.size(); ++i) {
    TF_RETURN_IF_ERROR(CheckSliceShapes(i, names.Of(i), tables[i],
                                        values[i].shape(), indices[i].shape()));
    TableSlices& one = slices->emplace_back();
    one.values = values[i].data();
    one.ids = indices[i].data();
    one.count = indices[i].dim_size(0);
    one.wide_ids = indices[i].dtype() == tensorflow::DT_INT64;
    one.rows = tables[i].dim_size(0);
    one.width = WidthOf(values[i]);
    if (more_rows.size() == 0) continue;
    TF_RETURN_IF_ERROR(CheckIsVector("accumulated_rows", i, names.Of(i),
                                     more_rows[i].shape()));
    one.more_ids = more_rows[i].data();
    one.more_count = more_rows[i].dim_size(0);
  }
  return absl::OkStatus();
}

absl::Status BadRowError(const Refusal& bad, const TableNames& names) {
  const int i = bad.index;
  return absl::InvalidArgumentError(absl::StrCat(
      "`", bad.kind == Refusal::kIndex ? "indices" : "accumulated_rows", "[", i,
      "]`", names.Of(i), " must be in [0, ", bad.rows,
      "), the rows of `variables[", i, "]`, got ", bad.row, " at ", bad.at));
}

absl::Status CheckCounts(const std::vector<TableSlices>& slices) {
  constexpr int64_t kMostRows = UINT32_MAX - 2;
  int64_t entries = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].rows < 0 || slices[i].rows > kMostRows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`variables[", i, "]` must have in [0, ", kMostRows,
          "] rows to have a sparse gradient, got ", slices[i].rows));
    }
    entries += slices[i].entries();
  }
  if (entries <= INT32_MAX) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`indices` must have at most ", INT32_MAX,
                   " elements together, got ", entries));
}

absl::Status SortRows(const std::vector<TableSlices>& slices,
                      const TableNames& names, const CpuThreads& threads,
                      tensorflow::Tensor* memory,
                      std::vector<SparseGradient>* sorted) {
  TF_RETURN_IF_ERROR(CheckCounts(slices));
  const auto count = static_cast<int64_t>(slices.size());
  std::vector<int64_t> begins;
  begins.reserve(count);
  int64_t end = 0;
  for (const TableSlices& one : slices) {
    begins.push_back(end);
    end += 2 * one.entries();
  }
  const int64_t bytes = end * sizeof(RowEntry);
  *memory = tensorflow::Tensor(tensorflow::cpu_allocator(), tensorflow::DT_INT8,
                               {bytes});
  if (!memory->IsInitialized()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "out of memory: sorting the rows of sparse gradients takes ", bytes,
        " bytes"));
  }
  auto* const entries = static_cast<RowEntry*>(memory->data());
  sorted->resize(count);
  std::vector<Refusal> bad(count);
  // Runs on other threads: it must not throw, so it allocates nothing.
  threads.ForTensors(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      bad[i] = SortEntries(static_cast<int>(i), slices[i], entries + begins[i],
                           &(*sorted)[i]);
    }
  });
  for (const Refusal& one : bad) {
    if (one.kind != Refusal::kNone) return BadRowError(one, names);
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
