#include "tf_opt/cc/kernels/slices.h"

#include <algorithm>

#include "tensorflow/core/framework/allocator.h"

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

// Sorts the entries of the i-th table in `memory`, which has room for twice as
// many.
template <typename Index>
BadRow SortEntries(int i, const TableSlices& slices, void* memory,
                   RowEntries* sorted) {
  auto* const entries = static_cast<RowEntry<Index>*>(memory);
  const int64_t count = slices.entries();
  for (int64_t k = 0; k < count; ++k) {
    const int64_t row = slices.IdOf(k);
    const bool has_values = k < slices.count;
    if (row < 0 || row >= slices.rows) {
      return {i + 1, has_values, row, has_values ? k : k - slices.count,
              slices.rows};
    }
    entries[k] = {static_cast<Index>(row),
                  static_cast<Index>(has_values ? k : kNoValues)};
  }
  *sorted = {SortByRow(slices.rows, count, entries, entries + count), count};
  return {};
}

}  // namespace

absl::Status FindSlices(tensorflow::OpKernelContext* context,
                        const SliceAttributes& attributes,
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
    TF_RETURN_IF_ERROR(CheckSliceShapes(i, attributes.Name(i), tables[i],
                                        values[i].shape(), indices[i].shape()));
    TableSlices& one = slices->emplace_back();
    one.values = values[i].data();
    one.ids = indices[i].data();
    one.count = indices[i].dim_size(0);
    one.wide_ids = indices[i].dtype() == tensorflow::DT_INT64;
    one.rows = tables[i].dim_size(0);
    one.width = WidthOf(values[i]);
    if (more_rows.size() == 0) continue;
    TF_RETURN_IF_ERROR(CheckIsVector("accumulated_rows", i, attributes.Name(i),
                                     more_rows[i].shape()));
    one.more_ids = more_rows[i].data();
    one.more_count = more_rows[i].dim_size(0);
  }
  return absl::OkStatus();
}

absl::Status BadRowError(const BadRow& bad, const SliceAttributes& attributes) {
  const int i = bad.table - 1;
  return absl::InvalidArgumentError(absl::StrCat(
      "`", bad.has_values ? "indices" : "accumulated_rows", "[", i, "]`",
      attributes.Name(i), " must be in [0, ", bad.rows,
      "), the rows of `variables[", i, "]`, got ", bad.row, " at ", bad.at));
}

absl::Status SortRows(const std::vector<TableSlices>& slices,
                      const SliceAttributes& attributes,
                      const CpuThreads& threads, tensorflow::Tensor* memory,
                      std::vector<SparseGradient<void>>* sorted) {
  const auto count = static_cast<int64_t>(slices.size());
  int64_t entries = 0;
  bool narrow = true;
  std::vector<int64_t> begins;
  begins.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    begins.push_back(2 * entries);
    sorted->push_back({slices[i].values, slices[i].width, {}});
    const int64_t of_table = slices[i].entries();
    narrow = narrow && std::max(slices[i].rows, of_table) <= INT32_MAX;
    entries += of_table;
  }
  const int64_t bytes =
      narrow ? sizeof(RowEntry<int32_t>) : sizeof(RowEntry<int64_t>);
  *memory = tensorflow::Tensor(tensorflow::cpu_allocator(), tensorflow::DT_INT8,
                               {2 * entries * bytes});
  if (!memory->IsInitialized()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "out of memory: sorting the rows of sparse gradients takes ",
        2 * entries * bytes, " bytes"));
  }
  auto* const room = static_cast<char*>(memory->data());
  std::vector<BadRow> bad(count);
  // Runs on other threads: it must not throw, so it allocates nothing.
  threads.ForTensors(count, [&](int64_t begin, int64_t end) {
    const auto sort = narrow ? SortEntries<int32_t> : SortEntries<int64_t>;
    for (int64_t i = begin; i < end; ++i) {
      bad[i] = sort(static_cast<int>(i), slices[i], room + begins[i] * bytes,
                    &(*sorted)[i].entries);
    }
  });
  for (const BadRow& one : bad) {
    if (one.table != 0) return BadRowError(one, attributes);
  }
  return absl::OkStatus();
}

}  // namespace tf_opt
