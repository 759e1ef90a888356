// Adam as its kernels see it: it has attributes of its own.
#ifndef TF_OPT_CC_KERNELS_ADAM_OPTIMIZER_H_
#define TF_OPT_CC_KERNELS_ADAM_OPTIMIZER_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/optimizer.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {

class AdamOptimizer : public OptimizerOf<Adam> {
 public:
  absl::Status Read(tensorflow::AttrSlice attributes) {
    TF_RETURN_IF_ERROR(OptimizerOf::Read(attributes));
    return GetNodeAttr(attributes, "epsilon_hat", &epsilon_hat_);
  }

  AdamHyperparameters modes() const {
    auto hyperparameters = OptimizerOf::modes();
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

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_ADAM_OPTIMIZER_H_
