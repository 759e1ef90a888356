#include <vector>

#include "tf_opt/cc/kernels/resource_apply_kernels.h"
#include "tf_opt/cc/rules/asgd.h"

namespace tf_opt {
namespace {

class AsgdOptimizer : public OptimizerOf<Asgd> {
 public:
  using OptimizerOf::OptimizerOf;

  std::vector<SlotInput> slots() const { return {"d", {"y", "batch_index"}}; }
};

const KernelRegistration<AsgdOptimizer> registration("TfOpt>ResourceApplyASGD",
                                                     {"d", "y"});

}  // namespace
}  // namespace tf_opt
