#include <vector>

#include "tf_opt/cc/kernels/resource_apply_kernels.h"
#include "tf_opt/cc/rules/averaged_sgd.h"

namespace tf_opt {
namespace {

class AveragedSgdOptimizer : public OptimizerOf<AveragedSgd> {
 public:
  using OptimizerOf::OptimizerOf;

  std::vector<SlotInput> slots() const { return {"ax"}; }
};

const KernelRegistration<AveragedSgdOptimizer> registration(
    "TfOpt>ResourceApplyAveragedSGD", {"ax"});

}  // namespace
}  // namespace tf_opt
