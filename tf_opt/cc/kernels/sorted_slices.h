// Reads and checks the rows of slices in the host's memory and sorts them for
// the sparse CPU engine.
#ifndef TF_OPT_CC_KERNELS_SORTED_SLICES_H_
#define TF_OPT_CC_KERNELS_SORTED_SLICES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/cpu/parallel_for.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/scratch.h"

namespace tf_opt {

// A row outside of its table, if one was found.
struct WrongRow {
  const char* input =
      nullptr;  // Input with the row; null if all rows are right.
  int64_t row = 0;
  int64_t at = 0;

  absl::Status Error(const SliceAttributes& attributes, int table,
                     int64_t rows) const {
    return absl::InvalidArgumentError(
        absl::StrCat("`", input, "[", table, "]`", attributes.Name(table),
                     " must be in [0, ", rows, "), the rows of `variables[",
                     table, "]`, got ", row, " at ", at));
  }
};

// Writes entries for the rows of the input `input` for one table to `to`.
template <typename From, typename Index>
WrongRow WriteEntries(const char* input, const RowNumbers& numbers,
                      int64_t rows, bool has_values, RowEntry<Index>* to) {
  const auto* const indices = static_cast<const From*>(numbers.data);
  for (int64_t k = 0; k < numbers.count; ++k) {
    const int64_t row = indices[k];
    if (row < 0 || row >= rows) return {input, row, k};
    to[k] = {static_cast<Index>(row),
             static_cast<Index>(has_values ? k : kNoValues)};
  }
  return {};
}

inline int64_t CountEntries(const RowSlices& slices) {
  return slices.indices.count + slices.accumulated_rows.count;
}

// Sorts the entries of a table in `memory`, which has room for twice as many.
template <typename Index>
WrongRow SortEntries(const RowSlices& slices, int64_t rows, void* memory,
                     RowEntries* sorted) {
  auto* const entries = static_cast<RowEntry<Index>*>(memory);
  const auto write = [&](const char* input, const RowNumbers& numbers,
                         bool has_values, RowEntry<Index>* to) {
    const auto write_entries = numbers.wide ? WriteEntries<int64_t, Index>
                                            : WriteEntries<int32_t, Index>;
    return write_entries(input, numbers, rows, has_values, to);
  };
  WrongRow wrong = write("indices", slices.indices, true, entries);
  if (wrong.input != nullptr) return wrong;
  wrong = write("accumulated_rows", slices.accumulated_rows, false,
                entries + slices.indices.count);
  if (wrong.input != nullptr) return wrong;
  const int64_t count = CountEntries(slices);
  *sorted = {SortByRow(rows, count, entries, entries + count), count};
  return {};
}

// Sorts all entries in memory of `scratch`; the i-th table has rows_of(i) rows.
template <typename Element, typename RowsOf>
absl::Status SortSlices(const std::vector<RowSlices>& slices,
                        const SliceAttributes& attributes,
                        const RowsOf& rows_of, int num_threads,
                        const ParallelFor& parallel_for, Scratch* scratch,
                        std::vector<SparseGradient<Element>>* sorted) {
  const auto count = static_cast<int64_t>(slices.size());
  int64_t entries = 0;
  bool narrow = true;
  std::vector<int64_t> begins;
  begins.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    begins.push_back(2 * entries);
    const int64_t of_table = CountEntries(slices[i]);
    narrow = narrow && FitsNarrowEntries(rows_of(i), of_table);
    entries += of_table;
  }
  const int64_t bytes =
      narrow ? sizeof(RowEntry<int32_t>) : sizeof(RowEntry<int64_t>);
  void* memory = nullptr;
  TF_RETURN_IF_ERROR(scratch->Allocate(2 * entries * bytes, &memory));
  sorted->resize(count);
  std::vector<WrongRow> wrong(count);
  // Runs on other threads: it must not throw, so it allocates nothing.
  const auto body = [&](int64_t begin, int64_t end) {
    const auto sort = narrow ? SortEntries<int32_t> : SortEntries<int64_t>;
    for (int64_t i = begin; i < end; ++i) {
      SparseGradient<Element>& gradient = (*sorted)[i];
      gradient.values = static_cast<const Element*>(slices[i].values);
      gradient.width = slices[i].width;
      wrong[i] = sort(slices[i], rows_of(i),
                      static_cast<char*>(memory) + begins[i] * bytes,
                      &gradient.entries);
    }
  };
  if (count == 1 || num_threads <= 1) {
    body(0, count);
  } else {
    parallel_for(count, 1, body);
  }
  for (int64_t i = 0; i < count; ++i) {
    if (wrong[i].input == nullptr) continue;
    return wrong[i].Error(attributes, static_cast<int>(i), rows_of(i));
  }
  return absl::OkStatus();
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SORTED_SLICES_H_
