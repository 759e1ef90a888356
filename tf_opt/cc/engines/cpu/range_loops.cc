// The CPU engine's loops that know no rule, for all types of variables and one
// instruction set.
#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/cpu/measure_range-inl.h"
#include "tf_opt/cc/engines/cpu/range_loops-inl.h"
#include "tf_opt/cc/engines/cpu/sum_row-inl.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {

template <typename T>
const RangeLoops<T>& RangeLoopsOf() {
  static constexpr RangeLoops<T> kLoops = {
      UpdateRange<T>, AddSquares<T>, CoastRange<T>, SumRow<T>, MeasureRange<T>};
  return kLoops;
}

template const RangeLoops<Half>& RangeLoopsOf<Half>();
template const RangeLoops<BFloat16>& RangeLoopsOf<BFloat16>();
template const RangeLoops<float>& RangeLoopsOf<float>();
template const RangeLoops<double>& RangeLoopsOf<double>();

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
