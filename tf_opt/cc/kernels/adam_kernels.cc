#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/dense_launch.h"
#include "tf_opt/cc/kernels/resource_apply_op.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;

template <typename T>
class ResourceApplyAdamAmsgradOp : public ResourceApplyOp<T> {
 public:
  explicit ResourceApplyAdamAmsgradOp(OpKernelConstruction* context)
      : ResourceApplyOp<T>(context) {
    int num_v_max;
    OP_REQUIRES_OK(context, context->GetAttr("num_v_max", &num_v_max));
    amsgrad_ = num_v_max > 0;
    OP_REQUIRES_OK(context, context->GetAttr("epsilon_hat", &epsilon_hat_));
  }

  void Compute(OpKernelContext* context) override {
    AdamHyperparameters hyperparameters;
    hyperparameters.maximize = maximize_;
    hyperparameters.epsilon_hat = epsilon_hat_;
    OP_REQUIRES_OK(context, ReadScalar(context, "learning_rate",
                                       &hyperparameters.learning_rate));
    OP_REQUIRES_OK(context,
                   ReadPositive(context, "step", &hyperparameters.step));
    OP_REQUIRES_OK(context,
                   ReadDecayRate(context, "beta_1", &hyperparameters.beta_1));
    OP_REQUIRES_OK(context,
                   ReadDecayRate(context, "beta_2", &hyperparameters.beta_2));
    OP_REQUIRES_OK(
        context, ReadNonNegative(context, "epsilon", &hyperparameters.epsilon));

    DenseLaunch<T> launch;
    OP_REQUIRES_OK(
        context,
        launch.Prepare(context, amsgrad_
                                    ? std::vector<SlotInput>{"m", "v", "v_max"}
                                    : std::vector<SlotInput>{"m", "v"}));
    const AdamStep step(hyperparameters);
    if (amsgrad_) {
      decoupled_ ? launch.template Run<AdamRule<V, true, false>>(context, step)
                 : launch.template Run<AdamRule<V, true, true>>(context, step);
    } else {
      decoupled_ ? launch.template Run<AdamRule<V, false, false>>(context, step)
                 : launch.template Run<AdamRule<V, false, true>>(context, step);
    }
  }

 private:
  using typename ResourceApplyOp<T>::V;
  using ResourceApplyOp<T>::decoupled_;
  using ResourceApplyOp<T>::maximize_;

  bool amsgrad_;
  bool epsilon_hat_;
};

TF_OPT_REGISTER_CPU_KERNELS("TfOpt>ResourceApplyAdamAmsgrad",
                            ResourceApplyAdamAmsgradOp);

}  // namespace
}  // namespace tf_opt
