#include <vector>

#include "tf_opt/cc/kernels/resource_apply_kernels.h"
#include "tf_opt/cc/rules/nadam.h"

namespace tf_opt {
namespace {

class NAdamOptimizer : public OptimizerOf<NAdam> {
 public:
  using OptimizerOf::OptimizerOf;

  std::vector<SlotInput> slots() const { return {"m", "v"}; }
};

const KernelRegistration<NAdamOptimizer> registration(
    "TfOpt>ResourceApplyNAdam", {"m", "v"});

}  // namespace
}  // namespace tf_opt
