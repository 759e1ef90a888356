#include "tf_opt/cc/kernels/optimizers.h"

#include "tf_opt/cc/rules/all_rules.h"

namespace tf_opt {

const std::vector<Optimizer>& AllOptimizers() {
  static const auto& optimizers = *[] {
    auto* const all = new std::vector<Optimizer>;
    ForEachRule([all](auto description) {
      using Description = typename decltype(description)::type;
      all->push_back({RuleInfoOf<Description>(), ApplyOnCpu<Description>});
    });
    return all;
  }();
  return optimizers;
}

}  // namespace tf_opt
