// The optimizers as the kernels of their resource-apply ops see them.
#ifndef TF_OPT_CC_KERNELS_OPTIMIZERS_H_
#define TF_OPT_CC_KERNELS_OPTIMIZERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/asgd.h"
#include "tf_opt/cc/rules/averaged_sgd.h"
#include "tf_opt/cc/rules/nadam.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// A rule's description with the attributes of its op.
template <typename Description>
struct OptimizerOf : Description {
  // Reads the attributes of an op, or those of a call compiled from it.
  absl::Status Read(tensorflow::AttrSlice attributes) {
    for (const Operand& slot : Description::kSlotOperands) {
      int length = 0;
      TF_RETURN_IF_ERROR(
          GetNodeAttr(attributes, absl::StrCat("num_", slot.name), &length));
      if (length > 0) slots.push_back(slot);
    }
    bool decoupled = true;
    TF_RETURN_IF_ERROR(
        GetNodeAttr(attributes, "decoupled_weight_decay", &decoupled));
    l2 = !decoupled;
    TF_RETURN_IF_ERROR(GetNodeAttr(attributes, "maximize", &modes.maximize));
    return GetNodeAttr(attributes, "stochastic_rounding",
                       &frame.stochastic_rounding);
  }

  // Calls use(TypeTag<Rule>()) with the rule for values of type V.
  template <typename V, typename Use>
  auto ChooseRule(const Use& use) const {
    return Description::template ChooseRule<V>(l2, use);
  }

  // Slots that the op has, in the rule's order.
  std::vector<Operand> slots;
  // What the attributes set of a step's numbers.
  typename Description::Hyperparameters modes;
  FrameInputs frame;
  bool l2 = false;
};

struct AdamOptimizer : OptimizerOf<Adam> {
  absl::Status Read(tensorflow::AttrSlice attributes) {
    TF_RETURN_IF_ERROR(OptimizerOf::Read(attributes));
    return GetNodeAttr(attributes, "epsilon_hat", &modes.epsilon_hat);
  }

  template <typename V, typename Use>
  auto ChooseRule(const Use& use) const {
    const bool amsgrad = slots.size() > 2;
    return Adam::ChooseRule<V>(amsgrad, l2, use);
  }
};

// Calls use(TypeTag<Optimizer>(), op, sparse) for each resource-apply op.
template <typename Use>
void ForEachApplyOp(const Use& use) {
  for (const bool sparse : {false, true}) {
    const std::string prefix =
        absl::StrCat("TfOpt>Resource", sparse ? "Sparse" : "", "Apply");
    use(TypeTag<AdamOptimizer>(), prefix + "AdamAmsgrad", sparse);
    use(TypeTag<OptimizerOf<Asgd>>(), prefix + "ASGD", sparse);
    use(TypeTag<OptimizerOf<AveragedSgd>>(), prefix + "AveragedSGD", sparse);
    use(TypeTag<OptimizerOf<NAdam>>(), prefix + "NAdam", sparse);
  }
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_OPTIMIZERS_H_
