// Rows of tables that wait in lazy steps and later catch up with the steps that
// they missed; see rules/coasting.h.
#ifndef TF_OPT_CC_ENGINES_CPU_WAITING_CPU_H_
#define TF_OPT_CC_ENGINES_CPU_WAITING_CPU_H_

#include <algorithm>
#include <cstdint>

#include "tf_opt/cc/engines/cpu/cpu_rule.h"
#include "tf_opt/cc/engines/cpu/range_loops.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"

namespace tf_opt {

// One table whose rows wait.
template <typename T>
class WaitingTable {
 public:
  using Rule = CpuRule<ComputeType<T>>;

  WaitingTable(const DenseTensor<T>& table, int64_t width, const Rule& rule,
               const WaitingRows& rows, const RangeLoops<T>& loops)
      : table_(table),
        width_(width),
        rule_(rule),
        rows_(rows),
        coast_(loops.coast) {
    rule_.frame = rule.frame.ForWaitingRows();
  }

  // Lets the columns [begin, end) of a row catch up.
  void CatchUp(int64_t row, int64_t begin, int64_t end) const {
    const MissedSteps* const missed = rows_.Of(row);
    if (missed == nullptr) return;
    coast_(rule_, Coasting<ComputeType<T>>(*missed), table_,
           row * width_ + begin, row * width_ + end);
  }

  // Lets the elements [begin, end) of the table catch up.
  void CatchUpAll(int64_t begin, int64_t end) const {
    while (begin < end) {
      const int64_t row = begin / width_;
      const int64_t stop = std::min(end, (row + 1) * width_);
      CatchUp(row, begin - row * width_, stop - row * width_);
      begin = stop;
    }
  }

  TF_OPT_RULE_INLINE void Prefetch(int64_t row) const {
    __builtin_prefetch(rows_.Address(row), 1);
  }

 private:
  const DenseTensor<T>& table_;
  int64_t width_;
  Rule rule_;
  const WaitingRows& rows_;
  decltype(RangeLoops<T>::coast) coast_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_WAITING_CPU_H_
