// From slices in the host's memory, whose rows are read and checked here, to
// the gradients of the sparse CPU engine.
#ifndef TF_OPT_CC_KERNELS_SORTED_SLICES_H_
#define TF_OPT_CC_KERNELS_SORTED_SLICES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tf_opt/cc/engines/parallel_for.h"
#include "tf_opt/cc/engines/sparse_gradient.h"
#include "tf_opt/cc/kernels/row_slices.h"

namespace tf_opt {

// Adds those that the input `input` says of the i-th table, which has so many
// rows.
template <typename Index>
absl::Status AddRows(const SliceAttributes& attributes, const char* input,
                     const RowNumbers& numbers, int i, int64_t rows,
                     bool has_values, std::vector<RowEntry>* entries) {
  const auto* const indices = static_cast<const Index*>(numbers.data);
  for (int64_t k = 0; k < numbers.count; ++k) {
    const int64_t row = indices[k];
    if (row < 0 || row >= rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`", input, "[", i, "]`", attributes.Name(i), " must be in [0, ",
          rows, "), the rows of `variables[", i, "]`, got ", row, " at ", k));
    }
    entries->push_back({row, has_values ? k : RowEntry::kNoValues});
  }
  return absl::OkStatus();
}

// Those of the i-th table.
template <typename Element>
absl::Status SortSlices(const RowSlices& slices,
                        const SliceAttributes& attributes, int i, int64_t rows,
                        SparseGradient<Element>* sorted) {
  const auto add = [&](const char* input, const RowNumbers& numbers,
                       bool has_values) {
    const auto add_rows = numbers.wide ? AddRows<int64_t> : AddRows<int32_t>;
    return add_rows(attributes, input, numbers, i, rows, has_values,
                    &sorted->entries);
  };
  sorted->values = static_cast<const Element*>(slices.values);
  sorted->width = slices.width;
  sorted->entries.reserve(slices.indices.count + slices.accumulated_rows.count);
  absl::Status status = add("indices", slices.indices, true);
  if (!status.ok()) return status;
  status = add("accumulated_rows", slices.accumulated_rows, false);
  if (!status.ok()) return status;
  SortByRow(rows, &sorted->entries);
  return absl::OkStatus();
}

// All of them, where the i-th table has rows_of(i) rows.
template <typename Element, typename RowsOf>
absl::Status SortSlices(const std::vector<RowSlices>& slices,
                        const SliceAttributes& attributes,
                        const RowsOf& rows_of, int num_threads,
                        const ParallelFor& parallel_for,
                        std::vector<SparseGradient<Element>>* sorted) {
  const auto count = static_cast<int64_t>(slices.size());
  sorted->resize(count);
  std::vector<absl::Status> statuses(count);
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      statuses[i] = SortSlices(slices[i], attributes, static_cast<int>(i),
                               rows_of(i), &(*sorted)[i]);
    }
  };
  if (count == 1 || num_threads <= 1) {
    body(0, count);
  } else {
    parallel_for(count, 1, body);
  }
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SORTED_SLICES_H_
