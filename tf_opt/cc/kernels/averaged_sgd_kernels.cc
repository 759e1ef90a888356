#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/dense_launch.h"
#include "tf_opt/cc/kernels/resource_apply_op.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/rules/averaged_sgd.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpKernelContext;

template <typename T>
class ResourceApplyAveragedSgdOp : public ResourceApplyOp<T> {
 public:
  using ResourceApplyOp<T>::ResourceApplyOp;

  void Compute(OpKernelContext* context) override {
    AveragedSgdHyperparameters hyperparameters;
    hyperparameters.maximize = maximize_;
    OP_REQUIRES_OK(context, ReadScalar(context, "learning_rate",
                                       &hyperparameters.learning_rate));
    OP_REQUIRES_OK(context, ReadScalar(context, "eta", &hyperparameters.eta));
    OP_REQUIRES_OK(context,
                   ReadPositive(context, "step", &hyperparameters.step));
    OP_REQUIRES_OK(context,
                   ReadNonNegative(context, "lambd", &hyperparameters.lambd));
    OP_REQUIRES_OK(context,
                   ReadNonNegative(context, "t0", &hyperparameters.t0));

    DenseLaunch<T> launch;
    OP_REQUIRES_OK(context, launch.Prepare(context, {"ax"}));
    const AveragedSgdStep step(hyperparameters);
    decoupled_ ? launch.template Run<AveragedSgdRule<V, false>>(context, step)
               : launch.template Run<AveragedSgdRule<V, true>>(context, step);
  }

 private:
  using typename ResourceApplyOp<T>::V;
  using ResourceApplyOp<T>::decoupled_;
  using ResourceApplyOp<T>::maximize_;
};

TF_OPT_REGISTER_CPU_KERNELS("TfOpt>ResourceApplyAveragedSGD",
                            ResourceApplyAveragedSgdOp);

}  // namespace
}  // namespace tf_opt
