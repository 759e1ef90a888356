// Numbers, arrays, and gradients of rows of tables for the tests of engines.
// Each part of a number counts, and memory around arrays tells what wrote
// there.
#ifndef TF_OPT_CC_ENGINES_TESTING_ROW_GRADIENT_H_
#define TF_OPT_CC_ENGINES_TESTING_ROW_GRADIENT_H_

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"

namespace tf_opt {

using E = ElementType;

inline std::mt19937_64 random_bits;
inline int Any(int count) { return random_bits() % count; }

// An infinity, a zero, a smallest, largest, subnormal or any other number of
// either sign, or a quiet or signaling NaN with some payload.
template <typename N>
N Special(uint64_t random) {
  constexpr int kBits = 8 * sizeof(N);
  constexpr int kFraction = std::is_same<N, Half>::value       ? 10
                            : std::is_same<N, BFloat16>::value ? 7
                            : sizeof(N) == 4                   ? 23
                                                               : 52;
  constexpr uint64_t kLowest = uint64_t{1} << kFraction;
  constexpr uint64_t kInfinity = (uint64_t{1} << (kBits - 1)) - kLowest;
  const uint64_t fraction = (random >> 8) & (kLowest - 1);
  const uint64_t magnitudes[] = {0,
                                 fraction,
                                 kLowest,
                                 kInfinity,
                                 kInfinity - 1,
                                 kInfinity | fraction,
                                 (random >> 8) & (kInfinity + kLowest - 1)};
  const uint64_t bits = magnitudes[random % 7] | (random >> 7 & 1)
                                                     << (kBits - 1);
  N value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Calls use(N()) with the type.
template <typename Use>
auto WithType(E type, const Use& use) {
  return WithElementType(
      type, [&](auto tag) { return use(typename decltype(tag)::type()); });
}
inline int64_t SizeOf(E type) {
  return WithType(type, [](auto zero) { return sizeof(zero); });
}
// Rounds a number to a type and stores it, or a special one.
inline void Put(double number, E type, void* array, int64_t at,
                bool special = false) {
  WithType(type, [&](auto zero) {
    using N = decltype(zero);
    static_cast<N*>(array)[at] =
        special
            ? Special<N>(random_bits())
            : EmulatedConvert::Narrow(static_cast<ComputeType<N>>(number), N());
  });
}

inline double Unit(int64_t place) {
  const double x = 0.6180339887498949 * place;
  return x - std::floor(x);
}

// Arrays in given memory, with poison between them. While it is guarded, the
// address sanitizer reports who reads or writes what is between them.
class Arena {
 public:
  Arena(void* memory, int64_t bytes)
      : memory_(static_cast<char*>(memory)), bytes_(bytes) {}

  // Returns a new array; null if it is empty, as TensorFlow's are.
  template <typename N>
  N* New(int64_t count, bool misaligned = false, int64_t size = sizeof(N)) {
    if (count == 0) return nullptr;
    const int64_t begin = (used_ + 127) / 64 * 64 + (misaligned ? size : 0);
    const int64_t end = begin + count * size;
    if (end + 64 > bytes_) throw std::bad_alloc();
    if (is_guarded_) Guard(false);
    std::memset(memory_ + used_, 0xff, end + 64 - used_);
    used_ = end;
    arrays_.push_back({begin, end});
    if (is_guarded_) Guard(true);
    return static_cast<N*>(static_cast<void*>(memory_ + begin));
  }

  // All arrays and the memory around them.
  std::string Bytes() const { return std::string(memory_, used_ + 64); }
  // Goes back to these, and has no later arrays.
  void Restore(const std::string& bytes) {
    std::copy(bytes.begin(), bytes.end(), memory_);
    used_ = bytes.size() - 64;
    while (arrays_.back().second > used_) arrays_.pop_back();
  }
  void Clear() {
    used_ = 0;
    arrays_.clear();
  }

  // Calls `use` while the arrays are guarded.
  template <typename Use>
  void Guarded(const Use& use) {
    Guard(is_guarded_ = true);
    use();
    Guard(is_guarded_ = false);
  }

 private:
  void Guard(bool guards) {
    ASAN_UNPOISON_MEMORY_REGION(memory_, bytes_);
    if (!guards) return;
    int64_t end = 0;
    for (const auto& array : arrays_) {
      ASAN_POISON_MEMORY_REGION(memory_ + end, array.first - end);
      end = array.second;
    }
    ASAN_POISON_MEMORY_REGION(memory_ + end, bytes_ - end);
  }

  char* memory_;
  int64_t bytes_;
  int64_t used_ = 0;
  bool is_guarded_ = false;
  std::vector<std::pair<int64_t, int64_t>> arrays_;
};

enum class Ids { kDifferent, kZipf, kOne, kAscending };

struct Table {
  int64_t entries() const { return count + more; }
  int64_t size() const { return rows * width; }

  int64_t rows, width;
  Ids ids = Ids::kZipf;
  int64_t count = 0;  // Entries with values, ...
  int64_t more = 0;   // ... and without.
};
using Tables = std::vector<Table>;

// The row of an entry in a step.
inline int64_t RowOf(const Table& table, int64_t entry, int step) {
  switch (table.ids) {
    case Ids::kDifferent:  // 7 must not divide the rows.
      return (7 * entry + step) % table.rows;
    case Ids::kZipf:
      return std::pow(table.rows + 1.0, Unit(1000 * step + entry)) - 1;
    case Ids::kOne:
      return step % table.rows;
    default:
      return entry * table.rows / table.entries();
  }
}

// As bits: all arrays an element off; infinities, NaNs and subnormal numbers,
// in values of rows only infinities; ids int64_t, not int32_t; some entries of
// no row.
enum { kMisaligned = 1, kSpecial = 2, kWideIds = 4, kUnused = 8 };

// The gradient of some rows of a table.
class RowGradient {
 public:
  RowGradient(const Table& table, E element, unsigned bits, Arena* arena)
      : table_(table), element_(element), bits_(bits) {
    slices.wide_ids = bits & kWideIds;
    slices.rows = table.rows;
    slices.width = table.width;
    slices.count = table.count;
    slices.more_count = table.more;
    const bool misaligned = bits & kMisaligned;
    slices.values = arena->New<char>(table.count * table.width, misaligned,
                                     SizeOf(element));
    slices.ids = NewIds(table.count, arena);
    slices.more_ids = NewIds(table.more, arena);
  }

  // Room for some ids.
  void* NewIds(int64_t count, Arena* arena) const {
    return arena->New<char>(count, bits_ & kMisaligned,
                            slices.wide_ids ? 8 : 4);
  }

  // For a step. A sum's bits tell its order: large numbers cancel out.
  void Fill(int step) {
    for (int64_t k = 0; k < table_.entries(); ++k) {
      const bool has_row = !(bits_ & kUnused) || k % 11 != 4;
      SetRow(k, has_row ? RowOf(table_, k, step) : slices.unused());
    }
    for (int64_t at = 0; at < table_.count * table_.width; ++at) {
      const int64_t k = at / table_.width;
      const double size = bits_ & kSpecial && k == 5 ? INFINITY
                          : at % 13 == 7             ? 0
                          : k % 2 == 0 ? 4096 + 4096 * Unit(at % table_.width)
                                       : 0x1p-8 + 0x1p-8 * Unit(at);
      Put(k % 4 < 2 ? size : -size, element_, const_cast<void*>(slices.values),
          at);
    }
  }

  void SetRow(int64_t entry, int64_t row) {
    entry < slices.count
        ? slices.WriteId(row, entry, const_cast<void*>(slices.ids))
        : slices.WriteId(row, entry - slices.count,
                         const_cast<void*>(slices.more_ids));
  }

  // Valid until the next one.
  SparseGradient ForCpu() {
    entries_.clear();
    for (int64_t k = 0; k < slices.entries(); ++k) {
      const int64_t row = slices.IdOf(k);
      if (row < 0 || row >= slices.rows) continue;
      entries_.push_back(
          {static_cast<uint32_t>(row),
           k < slices.count ? static_cast<uint32_t>(k) : kNoValues});
    }
    const int64_t count = entries_.size();
    entries_.resize(2 * count);
    const RowEntry* const sorted =
        SortByRow(slices.rows, count, entries_.data(), entries_.data() + count);
    return {slices.values, slices.width, sorted, count};
  }

  TableSlices slices;

 private:
  Table table_;
  E element_;
  unsigned bits_;
  std::vector<RowEntry> entries_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_ROW_GRADIENT_H_
