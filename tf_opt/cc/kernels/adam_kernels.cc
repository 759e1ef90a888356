#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/dense_launch.h"
#include "tf_opt/cc/kernels/scalar_inputs.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;

template <typename T>
class ResourceApplyAdamAmsgradOp : public OpKernel {
 public:
  explicit ResourceApplyAdamAmsgradOp(OpKernelConstruction* context)
      : OpKernel(context) {
    int num_v_max;
    OP_REQUIRES_OK(context, context->GetAttr("num_v_max", &num_v_max));
    amsgrad_ = num_v_max > 0;
    OP_REQUIRES_OK(context,
                   context->GetAttr("decoupled_weight_decay", &decoupled_));
    OP_REQUIRES_OK(context, context->GetAttr("maximize", &maximize_));
    OP_REQUIRES_OK(context, context->GetAttr("epsilon_hat", &epsilon_hat_));
  }

  void Compute(OpKernelContext* context) override {
    AdamHyperparameters hyperparameters;
    hyperparameters.maximize = maximize_;
    hyperparameters.epsilon_hat = epsilon_hat_;
    OP_REQUIRES_OK(context, ReadScalar(context, "learning_rate",
                                       &hyperparameters.learning_rate));
    OP_REQUIRES_OK(context, ReadStep(context, &hyperparameters.step));
    OP_REQUIRES_OK(context,
                   ReadDecayRate(context, "beta_1", &hyperparameters.beta_1));
    OP_REQUIRES_OK(context,
                   ReadDecayRate(context, "beta_2", &hyperparameters.beta_2));
    OP_REQUIRES_OK(
        context, ReadNonNegative(context, "epsilon", &hyperparameters.epsilon));

    DenseLaunch<T> launch;
    std::vector<double> weight_decay;
    OP_REQUIRES_OK(context, ReadVector(context, "weight_decay", &weight_decay));
    OP_REQUIRES_OK(
        context,
        launch.Prepare(context,
                       amsgrad_ ? std::vector<std::string>{"m", "v", "v_max"}
                                : std::vector<std::string>{"m", "v"}));
    OP_REQUIRES(context, static_cast<int>(weight_decay.size()) == launch.size(),
                absl::InvalidArgumentError(absl::StrCat(
                    "`weight_decay` must have one element for each of the ",
                    launch.size(), " `variables`, got ", weight_decay.size())));

    const AdamStep step(hyperparameters);
    if (amsgrad_) {
      decoupled_ ? Run<true, false>(context, step, weight_decay, &launch)
                 : Run<true, true>(context, step, weight_decay, &launch);
    } else {
      decoupled_ ? Run<false, false>(context, step, weight_decay, &launch)
                 : Run<false, true>(context, step, weight_decay, &launch);
    }
  }

 private:
  template <bool kAmsgrad, bool kL2>
  static void Run(OpKernelContext* context, const AdamStep& step,
                  const std::vector<double>& weight_decay,
                  DenseLaunch<T>* launch) {
    using Rule = AdamRule<typename DenseLaunch<T>::Slot, kAmsgrad, kL2>;
    std::vector<Rule> rules;
    rules.reserve(weight_decay.size());
    for (double decay : weight_decay) rules.emplace_back(step, decay);
    launch->Run(context, rules);
  }

  bool amsgrad_;
  bool decoupled_;
  bool maximize_;
  bool epsilon_hat_;
};

#define TF_OPT_REGISTER(T)                                       \
  REGISTER_KERNEL_BUILDER(Name("TfOpt>ResourceApplyAdamAmsgrad") \
                              .Device(tensorflow::DEVICE_CPU)    \
                              .TypeConstraint<T>("T"),           \
                          ResourceApplyAdamAmsgradOp<T>)
TF_OPT_REGISTER(Eigen::half);
TF_OPT_REGISTER(Eigen::bfloat16);
TF_OPT_REGISTER(float);
TF_OPT_REGISTER(double);
#undef TF_OPT_REGISTER

}  // namespace
}  // namespace tf_opt
