// What the sparse CPU engines do with one row of a gradient, for each
// instruction set. Defined in engines/cpu/sparse_cpu_rows-inl.h.
#ifndef TF_OPT_CC_ENGINES_CPU_SPARSE_ROWS_H_
#define TF_OPT_CC_ENGINES_CPU_SPARSE_ROWS_H_

#include <cstdint>

#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"

namespace tf_opt {

// Elements that are summed at a time, for which there is room.
constexpr int64_t kSummedColumns = 1024;

// SumRow writes the sum of the `count` entries of a row, from the entry `first`
// on, to `sum`: of its `columns` elements from `column` on. It is computed in
// the type of the arithmetic and rounded once, as TensorFlow does where it
// makes a dense gradient of a sparse one; like that one it is never -0.
//
// MeasureRow adds the squares of `columns` elements (measure.h) to the lanes
// from `lane` on, round and round, and RowIsFinite tells whether they all are
// finite. `gradient` or `accumulator` may be null: zeros. SumOfLanes is
// AddLanes for all of a tile's.
#define TF_OPT_DECLARE_CPU_TARGET(target)                                    \
  namespace target {                                                         \
  template <typename T>                                                      \
  void SumRow(const T* values, int64_t width, const RowEntries& entries,     \
              int64_t first, int64_t count, int64_t column, int64_t columns, \
              T* sum);                                                       \
  template <typename T>                                                      \
  void MeasureRow(ComputeType<T> scale, const T* gradient,                   \
                  const ComputeType<T>* accumulator, int64_t columns,        \
                  int lane, double* lanes);                                  \
  template <typename T>                                                      \
  bool RowIsFinite(ComputeType<T> scale, const T* gradient,                  \
                   const ComputeType<T>* accumulator, int64_t columns);      \
  double SumOfLanes(double* lanes);                                          \
  }
TF_OPT_FOR_CPU_TARGETS(TF_OPT_DECLARE_CPU_TARGET)
#undef TF_OPT_DECLARE_CPU_TARGET

template <typename T>
struct RowFunctions {
  void (*sum)(const T*, int64_t, const RowEntries&, int64_t, int64_t, int64_t,
              int64_t, T*);
  void (*measure)(ComputeType<T>, const T*, const ComputeType<T>*, int64_t, int,
                  double*);
  bool (*is_finite)(ComputeType<T>, const T*, const ComputeType<T>*, int64_t);
  double (*sum_of_lanes)(double*);
};

template <typename T>
RowFunctions<T> RowFunctionsFor(CpuTarget target) {
  return {TF_OPT_OF_CPU_TARGET(target, SumRow<T>),
          TF_OPT_OF_CPU_TARGET(target, MeasureRow<T>),
          TF_OPT_OF_CPU_TARGET(target, RowIsFinite<T>),
          TF_OPT_OF_CPU_TARGET(target, SumOfLanes)};
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_SPARSE_ROWS_H_
