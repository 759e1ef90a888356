// Sparse gradients for the tests of engines, and the dense ones that they mean.
#ifndef TF_OPT_CC_ENGINES_TESTING_SPARSE_MODEL_H_
#define TF_OPT_CC_ENGINES_TESTING_SPARSE_MODEL_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/engines/testing/dense_model.h"

namespace tf_opt {

// Of one table.
template <typename T>
class SparseModel {
 public:
  using V = ComputeType<T>;

  // `count` entries, some rows in many of them.
  SparseModel(int64_t rows, int64_t width, int64_t count, bool special = false)
      : rows_(rows), width_(width) {
    std::mt19937 random(rows + 31 * width + 977 * count);
    for (int64_t i = 0; i < count; ++i) {
      indices_.push_back(random() % (random() % 4 == 0 ? rows / 50 + 1 : rows));
      for (int64_t k = 0; k < width; ++k) {
        values_.push_back(special && random() % 16 == 0 ? Special(random())
                                                        : Number(random()));
      }
    }
  }

  int64_t rows() const { return rows_; }
  int64_t width() const { return width_; }

  // A row that is said without values.
  void AddRow(int64_t row) { more_rows_.push_back(row); }

  // Valid as long as the model, and until its next one. Some have narrow
  // entries, others wide ones.
  SparseGradient<T> Gradient() const {
    SparseGradient<T> gradient;
    gradient.values = values_.data();
    gradient.width = width_;
    gradient.entries = width_ % 2 == 0 ? Sorted(&narrow_) : Sorted(&wide_);
    return gradient;
  }

  std::set<int64_t> OccurringRows() const {
    std::set<int64_t> rows(indices_.begin(), indices_.end());
    rows.insert(more_rows_.begin(), more_rows_.end());
    return rows;
  }

  // Adds one entry after the other, and rounds at the end.
  std::vector<T> Dense() const {
    std::vector<V> sums(rows_ * width_);
    for (size_t i = 0; i < values_.size(); ++i) {
      sums[indices_[i / width_] * width_ + i % width_] += ToDouble(values_[i]);
    }
    std::vector<T> dense;
    for (const V sum : sums) dense.push_back(Rounded<T>(sum));
    return dense;
  }

 private:
  template <typename Index>
  RowEntries Sorted(std::vector<RowEntry<Index>>* memory) const {
    memory->clear();
    for (const int64_t row : indices_) {
      memory->push_back(
          {static_cast<Index>(row), static_cast<Index>(memory->size())});
    }
    for (const int64_t row : more_rows_) {
      memory->push_back(
          {static_cast<Index>(row), static_cast<Index>(kNoValues)});
    }
    const auto count = static_cast<int64_t>(memory->size());
    memory->resize(2 * count);
    return {SortByRow(rows_, count, memory->data(), memory->data() + count),
            count};
  }

  // Such that neither the order of a sum nor the type that it is formed in may
  // be another.
  static T Number(uint32_t random) {
    return Rounded<T>((random & 1 ? -1 : 1) * (1 + random * 0x1p-32));
  }

  static T Special(uint32_t random) {
    constexpr V kNumbers[] = {0, -V(0), INFINITY, -INFINITY, NAN};
    return Rounded<T>(kNumbers[random % 5]);
  }

  int64_t rows_;
  int64_t width_;
  std::vector<int64_t> indices_;
  std::vector<int64_t> more_rows_;
  std::vector<T> values_;
  mutable std::vector<RowEntry<int32_t>> narrow_;
  mutable std::vector<RowEntry<int64_t>> wide_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_TESTING_SPARSE_MODEL_H_
