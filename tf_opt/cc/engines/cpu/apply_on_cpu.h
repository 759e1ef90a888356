// A step of any optimizer on a CPU without its types: what a framework calls.
#ifndef TF_OPT_CC_ENGINES_CPU_APPLY_ON_CPU_H_
#define TF_OPT_CC_ENGINES_CPU_APPLY_ON_CPU_H_

#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/cpu/cpu_rule.h"
#include "tf_opt/cc/engines/cpu/parallel_for.h"
#include "tf_opt/cc/engines/cpu/sparse_gradient.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/rule_info.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

struct CpuStep {
  // A sparse gradient whose values have the variables' type.
  using Slices = SparseGradient<void>;

  StepArrays arrays;
  int variant = 0;  // See rules/description.h.
  RuleValues values;
  FrameInputs frame;
  std::vector<VariableInputs> variables;
  int64_t row = 0;  // Of each table: the one that the step reads and writes.
  // One for each variable if gradients are sparse.
  bool sparse = false;
  bool lazy = false;
  std::vector<Slices> slices;
  // One for each variable if rows that wait catch up. Without `frame.update`
  // that is all that happens.
  std::vector<WaitingRows> waiting;
  int threads = 1;
  ParallelFor parallel_for;
};

// Applies the rule, framed, to all variables. The numbers must be in their
// ranges. apply_on_cpu.cc defines it for each optimizer.
template <typename Description>
void ApplyOnCpu(const CpuStep& step);

// Applies a rule for each variable. `tables` are the operands that are a row of
// a table; where rows wait, each variable has a missed step.
void ApplyStep(const CpuStep& step, const std::vector<CpuRule<float>>& rules,
               OperandSet tables, const std::vector<MissedStep>& missed);
void ApplyStep(const CpuStep& step, const std::vector<CpuRule<double>>& rules,
               OperandSet tables, const std::vector<MissedStep>& missed);

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_CPU_APPLY_ON_CPU_H_
