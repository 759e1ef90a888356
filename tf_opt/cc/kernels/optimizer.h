// Description of an optimizer for the kernels of its resource-apply op: an
// `Optimizer`, which reads the op's attributes.
//
//   Optimizer::kScalars        the op's scalar inputs, as ScalarInput
//   modes()                    Hyperparameters set from the attributes
//   frame()                    FrameInputs set from the attributes
//   Optimizer::kSlotOperands   all slots that the op has
//   slots()                    those of this kernel, in the rule's order
//   ChooseRule<V>(use)         calls use(TypeTag<Rule>()) with its rule
#ifndef TF_OPT_CC_KERNELS_OPTIMIZER_H_
#define TF_OPT_CC_KERNELS_OPTIMIZER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// An Optimizer of a rule's description, for an op with no other attributes than
// these.
template <typename Description>
class OptimizerOf : public Description {
 public:
  // Reads the attributes of an op, or those of a call compiled from it.
  absl::Status Read(tensorflow::AttrSlice attributes) {
    slots_.clear();
    for (const Operand& slot : Description::kSlotOperands) {
      int length = 0;
      TF_RETURN_IF_ERROR(
          GetNodeAttr(attributes, absl::StrCat("num_", slot.name), &length));
      if (length > 0) slots_.push_back(slot);
    }
    TF_RETURN_IF_ERROR(
        GetNodeAttr(attributes, "decoupled_weight_decay", &decoupled_));
    TF_RETURN_IF_ERROR(GetNodeAttr(attributes, "maximize", &maximize_));
    return GetNodeAttr(attributes, "stochastic_rounding",
                       &stochastic_rounding_);
  }

  typename Description::Hyperparameters modes() const {
    typename Description::Hyperparameters hyperparameters;
    hyperparameters.maximize = maximize_;
    return hyperparameters;
  }

  FrameInputs frame() const {
    FrameInputs frame;
    frame.stochastic_rounding = stochastic_rounding_;
    return frame;
  }

  const std::vector<Operand>& slots() const { return slots_; }

  template <typename V, typename Use>
  void ChooseRule(const Use& use) const {
    Description::template ChooseRule<V>(l2(), use);
  }

 protected:
  bool l2() const { return !decoupled_; }

 private:
  std::vector<Operand> slots_;
  bool decoupled_ = true;
  bool maximize_ = false;
  bool stochastic_rounding_ = false;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_OPTIMIZER_H_
