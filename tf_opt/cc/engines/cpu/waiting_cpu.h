// Rows of tables that wait in lazy steps and later catch up with the steps that
// they missed; see rules/coasting.h.
#ifndef TF_OPT_CC_ENGINES_CPU_WAITING_CPU_H_
#define TF_OPT_CC_ENGINES_CPU_WAITING_CPU_H_

#include <algorithm>
#include <cstdint>

#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// One table whose rows wait.
template <typename T, typename Rule>
class WaitingTable {
 public:
  using Tensor = TensorOf<T, Rule>;

  WaitingTable(const Tensor& table, int64_t width, const FramedRule<Rule>& rule,
               const WaitingRows& rows, CpuTarget target)
      : table_(table),
        width_(width),
        rule_(rule.ForWaitingRows()),
        rows_(rows),
        coast_range_(TF_OPT_OF_CPU_TARGET(target, CoastRange<T, Rule>)) {}

  // Lets the columns [begin, end) of a row catch up.
  void CatchUp(int64_t row, int64_t begin, int64_t end) const {
    const MissedSteps* const missed = rows_.Of(row);
    if (missed == nullptr) return;
    coast_range_(rule_, Coasting<ComputeType<T>>(*missed),
                 table_.Part(row * width_ + begin, end - begin), 0,
                 end - begin);
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
  Tensor table_;
  int64_t width_;
  FramedRule<Rule> rule_;
  const WaitingRows& rows_;
  CoastFunction<T, Rule> coast_range_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_WAITING_CPU_H_
