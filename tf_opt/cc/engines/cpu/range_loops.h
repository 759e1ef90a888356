// The loops over a part of a variable or of its gradient, by their type T,
// compiled for an instruction set.
#ifndef TF_OPT_CC_ENGINES_CPU_RANGE_LOOPS_H_
#define TF_OPT_CC_ENGINES_CPU_RANGE_LOOPS_H_

#include <cstdint>

#include "tf_opt/cc/engines/cpu/cpu_rule.h"
#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// The elements [begin, end) of a tensor, with the gradient of the first one;
// null: it is zero everywhere.
template <typename T>
struct TensorRange {
  TF_OPT_RULE_INLINE const T* gradient_at(int64_t start) const {
    return gradient == nullptr ? nullptr : gradient + (start - begin);
  }

  const DenseTensor<T>& tensor;
  const T* gradient;
  int64_t begin;
  int64_t end;
};

template <typename T>
struct RangeLoops {
  using Rule = CpuRule<ComputeType<T>>;
  using Range = TensorRange<T>;

  // Applies the rule and its frame: to whole rows, if the rule has row states.
  // Only accumulates and averages, if the frame doesn't update.
  void (*apply)(const Rule& rule, const Range& range);

  // Adds the squares of a row-wise rule's gradient to kLanes lanes, in the
  // order of measure.h: the first element's to lane 0.
  void (*add_squares)(const Rule& rule, const Range& range, double* lanes);
  // Lets the elements of rows that waited coast.
  void (*coast)(const Rule& rule, const Coasting<ComputeType<T>>& coasting,
                const DenseTensor<T>& tensor, int64_t begin, int64_t end);

  // Writes the sum of the `count` entries of a row, from the entry `first` on,
  // to `sum`: of its `columns` elements from `column` on. It is computed in the
  // type of the arithmetic and rounded once, as TensorFlow does where it makes
  // a dense gradient of a sparse one; like that one it is never -0.
  void (*sum_row)(const T* values, int64_t width, const RowEntries& entries,
                  int64_t first, int64_t count, int64_t column, int64_t columns,
                  T* sum);
  // Measures `size` elements of a gradient, at most a tile.
  Measure (*measure)(ComputeType<T> scale, const T* gradient,
                     const ComputeType<T>* accumulator, int64_t size);
};

// range_loops.cc defines these, once per instruction set.
#define TF_OPT_DECLARE_CPU_TARGET(target) \
  namespace target {                      \
  template <typename T>                   \
  const RangeLoops<T>& RangeLoopsOf();    \
  }
TF_OPT_FOR_CPU_TARGETS(TF_OPT_DECLARE_CPU_TARGET)
#undef TF_OPT_DECLARE_CPU_TARGET

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_RANGE_LOOPS_H_
