#include "absl/status/status.h"
#include "tf_opt/cc/kernels/resource_apply_kernels.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {
namespace {

class AdamOptimizer : public OptimizerOf<Adam> {
 public:
  template <typename Attributes>
  absl::Status Read(const Attributes& attributes) {
    absl::Status status = OptimizerOf::Read(attributes);
    if (!status.ok()) return status;
    return attributes.GetAttr("epsilon_hat", &epsilon_hat_);
  }

  AdamHyperparameters modes() const {
    AdamHyperparameters hyperparameters = OptimizerOf::modes();
    hyperparameters.epsilon_hat = epsilon_hat_;
    return hyperparameters;
  }

  template <typename V, typename Use>
  void ChooseRule(const Use& use) const {
    const bool amsgrad = slots().size() > 2;
    Adam::ChooseRule<V>(amsgrad, l2(), use);
  }

 private:
  bool epsilon_hat_ = false;
};

const KernelRegistration<AdamOptimizer> registration(
    "TfOpt>ResourceApplyAdamAmsgrad", "TfOpt>ResourceSparseApplyAdamAmsgrad");

}  // namespace
}  // namespace tf_opt
