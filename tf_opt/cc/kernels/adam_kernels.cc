#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/resource_apply_kernels.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {
namespace {

class AdamOptimizer : public OptimizerOf<Adam> {
 public:
  explicit AdamOptimizer(tensorflow::OpKernelConstruction* context)
      : OptimizerOf(context) {
    int num_v_max = 0;
    OP_REQUIRES_OK(context, context->GetAttr("num_v_max", &num_v_max));
    amsgrad_ = num_v_max > 0;
    OP_REQUIRES_OK(context, context->GetAttr("epsilon_hat", &epsilon_hat_));
  }

  AdamHyperparameters modes() const {
    AdamHyperparameters hyperparameters = OptimizerOf::modes();
    hyperparameters.epsilon_hat = epsilon_hat_;
    return hyperparameters;
  }

  std::vector<SlotInput> slots() const {
    if (amsgrad_) return {"m", "v", "v_max"};
    return {"m", "v"};
  }

  template <typename V, typename Use>
  void ChooseRule(const Use& use) const {
    Adam::ChooseRule<V>(amsgrad_, l2(), use);
  }

 private:
  bool amsgrad_ = false;
  bool epsilon_hat_ = false;
};

const KernelRegistration<AdamOptimizer> registration(
    "TfOpt>ResourceApplyAdamAmsgrad", {"m", "v", "v_max"});

}  // namespace
}  // namespace tf_opt
