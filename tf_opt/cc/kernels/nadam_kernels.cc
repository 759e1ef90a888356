#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/dense_launch.h"
#include "tf_opt/cc/kernels/resource_apply_op.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/rules/nadam.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpKernelContext;

template <typename T>
class ResourceApplyNAdamOp : public ResourceApplyOp<T> {
 public:
  using ResourceApplyOp<T>::ResourceApplyOp;

  void Compute(OpKernelContext* context) override {
    NAdamHyperparameters hyperparameters;
    hyperparameters.maximize = maximize_;
    OP_REQUIRES_OK(context, ReadScalar(context, "learning_rate",
                                       &hyperparameters.learning_rate));
    OP_REQUIRES_OK(context,
                   ReadPositive(context, "step", &hyperparameters.step));
    OP_REQUIRES_OK(context, ReadScalar(context, "momentum_product",
                                       &hyperparameters.momentum_product));
    OP_REQUIRES_OK(context,
                   ReadDecayRate(context, "beta_1", &hyperparameters.beta_1));
    OP_REQUIRES_OK(context,
                   ReadDecayRate(context, "beta_2", &hyperparameters.beta_2));
    OP_REQUIRES_OK(
        context, ReadNonNegative(context, "epsilon", &hyperparameters.epsilon));
    OP_REQUIRES_OK(context, ReadNonNegative(context, "momentum_decay",
                                            &hyperparameters.momentum_decay));

    DenseLaunch<T> launch;
    OP_REQUIRES_OK(context, launch.Prepare(context, {"m", "v"}));
    const NAdamStep step(hyperparameters);
    decoupled_ ? launch.template Run<NAdamRule<V, false>>(context, step)
               : launch.template Run<NAdamRule<V, true>>(context, step);
  }

 private:
  using typename ResourceApplyOp<T>::V;
  using ResourceApplyOp<T>::decoupled_;
  using ResourceApplyOp<T>::maximize_;
};

TF_OPT_REGISTER_CPU_KERNELS("TfOpt>ResourceApplyNAdam", ResourceApplyNAdamOp);

}  // namespace
}  // namespace tf_opt
