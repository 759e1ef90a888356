// The loops over a part of a variable, by its type T, compiled for an
// instruction set.
#ifndef TF_OPT_CC_ENGINES_CPU_RANGE_LOOPS_H_
#define TF_OPT_CC_ENGINES_CPU_RANGE_LOOPS_H_

#include <cstdint>

#include "tf_opt/cc/engines/cpu/cpu_rule.h"
#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"

namespace tf_opt {

template <typename T>
struct RangeLoops {
  using Rule = CpuRule<ComputeType<T>>;
  using Tensor = DenseTensor<T>;

  // Applies the rule and its frame to the elements [begin, end) of the tensor.
  // `gradient` is that of the first one; null: zero everywhere. If the rule
  // has row states the elements are those of whole rows.
  void (*apply)(const Rule& rule, const Tensor& tensor, const T* gradient,
                int64_t begin, int64_t end);
  // Only accumulates and averages.
  void (*accumulate)(const Rule& rule, const Tensor& tensor, const T* gradient,
                     int64_t begin, int64_t end);
  // Adds the squares of a row-wise rule's gradient to kLanes lanes, in the
  // order of measure.h: that of element `begin` to lane 0.
  void (*add_squares)(const Rule& rule, const Tensor& tensor, const T* gradient,
                      int64_t begin, int64_t end, double* lanes);
  // Lets the elements of rows that waited coast.
  void (*coast)(const Rule& rule, const Coasting<ComputeType<T>>& coasting,
                const Tensor& tensor, int64_t begin, int64_t end);
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
