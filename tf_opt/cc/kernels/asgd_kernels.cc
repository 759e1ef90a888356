#include <cstdint>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/dense_launch.h"
#include "tf_opt/cc/kernels/resource_apply_op.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/rules/asgd.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpKernelContext;

template <typename T>
class ResourceApplyAsgdOp : public ResourceApplyOp<T> {
 public:
  using ResourceApplyOp<T>::ResourceApplyOp;

  void Compute(OpKernelContext* context) override {
    AsgdHyperparameters hyperparameters;
    hyperparameters.maximize = maximize_;
    OP_REQUIRES_OK(context, ReadScalar(context, "learning_rate",
                                       &hyperparameters.learning_rate));
    int64_t batch_index;
    OP_REQUIRES_OK(context, ReadScalar(context, "batch_index", &batch_index));

    // Of `y` only this row is read and written, where it lies.
    DenseLaunch<T> launch;
    OP_REQUIRES_OK(context, launch.Prepare(context, {"d", {"y", batch_index}}));
    // After the check of the batch: it is what a wrong count comes from.
    OP_REQUIRES_OK(context, ReadPositive(context, "seen_batches",
                                         &hyperparameters.seen_batches));
    const AsgdStep step(hyperparameters);
    decoupled_ ? launch.template Run<AsgdRule<V, false>>(context, step)
               : launch.template Run<AsgdRule<V, true>>(context, step);
  }

 private:
  using typename ResourceApplyOp<T>::V;
  using ResourceApplyOp<T>::decoupled_;
  using ResourceApplyOp<T>::maximize_;
};

TF_OPT_REGISTER_CPU_KERNELS("TfOpt>ResourceApplyASGD", ResourceApplyAsgdOp);

}  // namespace
}  // namespace tf_opt
