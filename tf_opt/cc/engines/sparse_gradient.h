// A gradient that says only some rows of a table: values, and for each the row
// that it belongs to, as tf.IndexedSlices.
//
// Its rows are put in order once, each with where its values lie. After that
// every row is found with all its values next to each other, in the order in
// which they were given, and is summed in that order: the same bits on any
// number of threads.
#ifndef TF_OPT_CC_ENGINES_SPARSE_GRADIENT_H_
#define TF_OPT_CC_ENGINES_SPARSE_GRADIENT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tf_opt {

struct RowEntry {
  // The position of a row that has no values: its gradient is zero.
  static constexpr int64_t kNoValues = -1;

  int64_t row;
  int64_t position;  // Of its values.
};

// Sorts by row, in which there are `rows`; entries of the same row stay in
// their order. By 11 bits a pass, from the lowest on: a few microseconds for a
// thousand entries, whatever they are.
inline void SortByRow(int64_t rows, std::vector<RowEntry>* entries) {
  constexpr int kBits = 11;
  constexpr int kDigits = 1 << kBits;
  std::vector<RowEntry> sorted(entries->size());
  for (int shift = 0; shift < 63 && (rows - 1) >> shift > 0; shift += kBits) {
    const auto digit_of = [shift](const RowEntry& entry) {
      return (entry.row >> shift) & (kDigits - 1);
    };
    int64_t begins[kDigits + 1] = {};
    for (const RowEntry& entry : *entries) ++begins[digit_of(entry) + 1];
    for (int i = 0; i < kDigits; ++i) begins[i + 1] += begins[i];
    for (const RowEntry& entry : *entries) {
      sorted[begins[digit_of(entry)]++] = entry;
    }
    entries->swap(sorted);
  }
}

template <typename T>
struct SparseGradient {
  // Where the entries of the k-th one's row end; k is the first of them.
  int64_t SegmentEnd(int64_t k) const {
    const int64_t row = entries[k].row;
    while (k < count() && entries[k].row == row) ++k;
    return k;
  }

  bool BeginsSegment(int64_t k) const {
    return k == 0 || entries[k].row != entries[k - 1].row;
  }

  // The first entry of this row or a later one.
  int64_t Find(int64_t row) const {
    return std::lower_bound(
               entries.begin(), entries.end(), row,
               [](const RowEntry& e, int64_t row) { return e.row < row; }) -
           entries.begin();
  }

  int64_t count() const { return static_cast<int64_t>(entries.size()); }

  const T* values = nullptr;      // Rows of `width` elements.
  int64_t width = 0;              // Elements of a row.
  std::vector<RowEntry> entries;  // By row.
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_SPARSE_GRADIENT_H_
