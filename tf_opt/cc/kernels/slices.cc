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

// Writes entries for the rows of the i-th table, with or without values, to
// `to`.
template <typename From, typename Index>
BadRow WriteEntries(int i, const Slices& slices, bool has_values,
                    RowEntry<Index>* to) {
  const LaunchArray& ids =
      has_values ? slices.indices : slices.accumulated_rows;
  for (int64_t k = 0; k < ids.rows; ++k) {
    const int64_t row = static_cast<const From*>(ids.data)[k];
    if (row < 0 || row >= slices.table_rows) {
      return {i + 1, has_values, row, k, slices.table_rows};
    }
    to[k] = {static_cast<Index>(row),
             static_cast<Index>(has_values ? k : kNoValues)};
  }
  return {};
}

int64_t CountEntries(const Slices& slices) {
  return slices.indices.rows + slices.accumulated_rows.rows;
}

// Sorts the entries of the i-th table in `memory`, which has room for twice as
// many.
template <typename Index>
BadRow SortEntries(int i, const Slices& slices, void* memory,
                   RowEntries* sorted) {
  auto* const entries = static_cast<RowEntry<Index>*>(memory);
  const auto write = slices.indices.type == tensorflow::DT_INT64
                         ? WriteEntries<int64_t, Index>
                         : WriteEntries<int32_t, Index>;
  BadRow bad = write(i, slices, true, entries);
  if (bad.table == 0) {
    bad = write(i, slices, false, entries + slices.indices.rows);
  }
  if (bad.table != 0) return bad;
  const int64_t count = CountEntries(slices);
  *sorted = {SortByRow(slices.table_rows, count, entries, entries + count),
             count};
  return {};
}

}  // namespace

absl::Status FindSlices(tensorflow::OpKernelContext* context,
                        const SliceAttributes& attributes,
                        const std::vector<tensorflow::TensorShape>& tables,
                        std::vector<Slices>* slices) {
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
    slices->push_back(
        {ArrayOf(values[i]), ArrayOf(indices[i]), {}, tables[i].dim_size(0)});
    if (more_rows.size() == 0) continue;
    TF_RETURN_IF_ERROR(CheckIsVector("accumulated_rows", i, attributes.Name(i),
                                     more_rows[i].shape()));
    slices->back().accumulated_rows = ArrayOf(more_rows[i]);
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

absl::Status SortRows(const std::vector<Slices>& slices,
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
    sorted->push_back({slices[i].values.data, slices[i].values.width, {}});
    const int64_t of_table = CountEntries(slices[i]);
    narrow = narrow && std::max(slices[i].table_rows, of_table) <= INT32_MAX;
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
