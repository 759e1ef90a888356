// A gradient of some rows of a table: values, and for each row of values its
// row in the table, as in tf.IndexedSlices.
//
// The rows are sorted once, each with the position of its values. Then all
// values of a table row are next to each other, in the given order, and are
// summed in that order: the same bits on any number of threads.
#ifndef TF_OPT_CC_ENGINES_CPU_SPARSE_GRADIENT_H_
#define TF_OPT_CC_ENGINES_CPU_SPARSE_GRADIENT_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// Position of a row without values: its gradient is zero.
constexpr uint32_t kNoValues = UINT32_MAX;

struct RowEntry {
  uint32_t row;
  uint32_t position;  // Position of its values.
};

// Sorts by row, less than `rows`; entries of the same row keep their order.
// Returns the sorted entries, either `entries` or `room`, which has the same
// size. Takes at most 11 bits a pass, from the lowest on: a few microseconds
// for a thousand entries. Those of a merged gradient are sorted already.
inline RowEntry* SortByRow(int64_t rows, int64_t count, RowEntry* entries,
                           RowEntry* room) {
  if (std::is_sorted(entries, entries + count,
                     [](RowEntry a, RowEntry b) { return a.row < b.row; })) {
    return entries;
  }
  constexpr int kMostBits = 11;
  int bits = 0;  // Bits of a row.
  while ((rows - 1) >> bits > 0) ++bits;
  const int passes = (bits + kMostBits - 1) / kMostBits;
  if (passes == 0) return entries;
  // A few passes over few digits: for a table of few rows, clearing and adding
  // the digits' counts would take longer than the entries.
  const int digit_bits = (bits + passes - 1) / passes;
  const int digits = 1 << digit_bits;
  for (int shift = 0; shift < bits; shift += digit_bits) {
    const auto digit_of = [=](RowEntry entry) {
      return entry.row >> shift & (digits - 1);
    };
    int64_t begins[(1 << kMostBits) + 1];
    std::fill_n(begins, digits + 1, 0);
    for (int64_t k = 0; k < count; ++k) ++begins[digit_of(entries[k]) + 1];
    for (int i = 0; i < digits; ++i) begins[i + 1] += begins[i];
    for (int64_t k = 0; k < count; ++k) {
      room[begins[digit_of(entries[k])]++] = entries[k];
    }
    std::swap(entries, room);
  }
  return entries;
}

// The values are of the variable's type.
struct SparseGradient {
  // Returns the end of the entries with the row of the k-th, which is the first
  // of them.
  int64_t SegmentEnd(int64_t k) const {
    const uint32_t row = entries[k].row;
    while (k < count && entries[k].row == row) ++k;
    return k;
  }

  bool BeginsSegment(int64_t k) const {
    return k == 0 || entries[k].row != entries[k - 1].row;
  }

  // Returns the first entry of this row or a later one.
  int64_t Find(int64_t row) const {
    return FirstWhere(count, [&](int64_t k) { return entries[k].row >= row; });
  }

  const void* values = nullptr;       // Rows of `width` elements.
  int64_t width = 0;                  // Elements of a row.
  const RowEntry* entries = nullptr;  // By row.
  int64_t count = 0;                  // Of the entries.
};

// Prefetch distance in elements: a processor can't predict the next row.
constexpr int64_t kRowPrefetchDistance = 512;
// Longer rows are prefetched by the processor after these bytes.
constexpr int64_t kRowPrefetchBytes = 1024;

// Prefetch distance in entries of rows of `width` elements.
TF_OPT_RULE_INLINE int64_t EntriesAhead(int64_t width) {
  return width < kRowPrefetchDistance ? kRowPrefetchDistance / width : 1;
}

// Always inlined: GCC takes a function that only prefetches for one without
// effect and removes its calls.
template <bool kWritten>
TF_OPT_RULE_INLINE void PrefetchRow(const void* row, int64_t bytes) {
  constexpr int kCacheLine = 64;
  const char* const begin = static_cast<const char*>(row);
  const int64_t end = bytes < kRowPrefetchBytes ? bytes : kRowPrefetchBytes;
  for (int64_t i = 0; i < end; i += kCacheLine) {
    __builtin_prefetch(begin + i, kWritten);
  }
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_SPARSE_GRADIENT_H_
