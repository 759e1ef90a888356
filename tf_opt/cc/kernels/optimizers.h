// The optimizers as the kernels of their resource-apply ops see them.
#ifndef TF_OPT_CC_KERNELS_OPTIMIZERS_H_
#define TF_OPT_CC_KERNELS_OPTIMIZERS_H_

#include <vector>

#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/rules/rule_info.h"

namespace tf_opt {

struct Optimizer {
  RuleInfo rule;
  void (*apply_on_cpu)(const CpuStep& step);
};

const std::vector<Optimizer>& AllOptimizers();

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_OPTIMIZERS_H_
