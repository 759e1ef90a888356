// From an op's slices, whose rows are read and checked on the host, to the
// gradients of the sparse CPU engine.
#ifndef TF_OPT_CC_KERNELS_SORTED_SLICES_H_
#define TF_OPT_CC_KERNELS_SORTED_SLICES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/engines/parallel_for.h"
#include "tf_opt/cc/engines/sparse_gradient.h"
#include "tf_opt/cc/kernels/row_slices.h"

namespace tf_opt {

template <typename Index>
absl::Status AddRows(const RowSlices& slices, const char* input,
                     const tensorflow::Tensor& tensor, int i, int64_t rows,
                     bool has_values, std::vector<RowEntry>* entries) {
  const auto* const indices = static_cast<const Index*>(tensor.data());
  for (int64_t k = 0; k < tensor.NumElements(); ++k) {
    const int64_t row = indices[k];
    if (row < 0 || row >= rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`", input, "[", i, "]`", slices.Name(i), " must be in [0, ", rows,
          "), the rows of `variables[", i, "]`, got ", row, " at ", k));
    }
    entries->push_back({row, has_values ? k : RowEntry::kNoValues});
  }
  return absl::OkStatus();
}

// Those of the i-th table, which has so many rows.
template <typename Element>
absl::Status SortSlices(const RowSlices& slices, int i, int64_t rows,
                        SparseGradient<Element>* sorted) {
  const auto add = [&](const char* input, const tensorflow::Tensor& tensor,
                       bool has_values) {
    return tensor.dtype() == tensorflow::DT_INT32
               ? AddRows<int32_t>(slices, input, tensor, i, rows, has_values,
                                  &sorted->entries)
               : AddRows<int64_t>(slices, input, tensor, i, rows, has_values,
                                  &sorted->entries);
  };
  sorted->values = static_cast<const Element*>(slices.values(i).data());
  sorted->width = slices.width(i);
  sorted->entries.reserve(slices.indices(i).NumElements() +
                          (slices.has_accumulated_rows()
                               ? slices.accumulated_rows(i).NumElements()
                               : 0));
  absl::Status status = add("indices", slices.indices(i), true);
  if (!status.ok()) return status;
  if (slices.has_accumulated_rows()) {
    status = add("accumulated_rows", slices.accumulated_rows(i), false);
    if (!status.ok()) return status;
  }
  SortByRow(rows, &sorted->entries);
  return absl::OkStatus();
}

// All of them, where the i-th table has rows_of(i) rows; after their shapes
// have been checked.
template <typename Element, typename RowsOf>
absl::Status SortSlices(const RowSlices& slices, const RowsOf& rows_of,
                        int num_threads, const ParallelFor& parallel_for,
                        std::vector<SparseGradient<Element>>* sorted) {
  sorted->resize(slices.size());
  std::vector<absl::Status> statuses(slices.size());
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      statuses[i] = SortSlices(slices, i, rows_of(i), &(*sorted)[i]);
    }
  };
  if (slices.size() == 1 || num_threads <= 1) {
    body(0, slices.size());
  } else {
    parallel_for(slices.size(), 1, body);
  }
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SORTED_SLICES_H_
