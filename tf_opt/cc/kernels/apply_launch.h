// The launch of a resource-apply op: its attributes, and in a running op its
// variables, found, locked and checked, and the numbers beside them.
#ifndef TF_OPT_CC_KERNELS_APPLY_LAUNCH_H_
#define TF_OPT_CC_KERNELS_APPLY_LAUNCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/kernels/variable_access.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"

namespace tf_opt {

// An optimizer as the kernels see it.
struct Optimizer {
  RuleInfo rule;
  RuleMakers makers;
};

const std::vector<Optimizer>& AllOptimizers();

struct ApplyAttributes {
  // Reads the node of an op.
  absl::Status Read(const tensorflow::NodeDef& node);

  const Optimizer* optimizer = nullptr;
  int count = 0;  // Of the op's variables.
  // Slots that the op has, in the rule's order, and operands of waiting rows.
  std::vector<Operand> slots;
  Step step;  // Without scalars and arrays.
  bool stochastic_rounding = false;
  TableNames tables;
};

// Its variables are locked as long as it lives.
class ApplyLaunch {
 public:
  // A launch without any array yet. The operands are those of the frame and
  // then the slots, in the rule's order.
  explicit ApplyLaunch(const ApplyAttributes& attributes);

  // Finds the numbers beside the arrays.
  absl::Status FindNumbers(tensorflow::OpKernelContext* context);

  // Looks up, locks and checks all variables and makes them safe to write.
  // After an error nothing has been written and nothing may be launched.
  // `updates` is false if the step is known only to accumulate. Reads only the
  // host's memory, whatever the op's device.
  absl::Status Prepare(tensorflow::OpKernelContext* context, bool updates,
                       const CopyBytes& copy_bytes);

  int size() const { return attributes_.count; }

  // The array of operand k for variable i.
  const tensorflow::Tensor& array(int k, int i) const {
    return *arrays_[k * size() + i];
  }
  bool has(int k) const { return k >= 0 && arrays_[k * size()] != nullptr; }

  // Whether the step's numbers are in variables.
  bool has_number_variables() const {
    return counter_.size() + rate_.size() > 0;
  }

  // Adds one to the counter of steps, if there is one.
  void Count();

  // The error for a number that was refused, or a row.
  absl::Status ErrorOf(const Refusal& refusal) const;

  // Adds the arrays to the step, the stacked operand from `layer` on, and what
  // is rounded at random.
  void AddArrays(int64_t layer);

  Step step;

 private:
  absl::Status LockVariables(tensorflow::OpKernelContext* context);
  // Checks all variables and finds the gradients.
  absl::Status FindGradients(tensorflow::OpKernelContext* context);
  bool IsWrittenWithoutUpdate(int operand) const;
  // Reads the variables that stand for numbers, under their locks.
  absl::Status ReadNumberVariables(tensorflow::OpKernelContext* context,
                                   const CopyBytes& copy_bytes);
  int64_t CountLayers() const;
  // Checks the types of the arrays against each other.
  absl::Status CheckTypes() const;
  StateType StateTypeOf(int operand, int i) const;
  OperandSet RoundedAtRandom() const;

  const ApplyAttributes& attributes_;
  std::vector<Operand> operands_;
  // That of operand k for variable i is at k * size() + i; null if absent.
  std::vector<const tensorflow::Tensor*> arrays_;
  int stacked_ = -1;
  std::vector<VariableList> lists_;  // One per operand; empty if absent.
  VariableList counter_, rate_;
  int64_t step_number_ = 0;
  double learning_rate_ = 0;
  // Last, so that it unlocks before the variables are released.
  ScopedVariableLocks locks_;
};

// Base of the kernels of resource-apply ops. It applies the rule, framed, to
// all variables of an op. After an error nothing has been written.
class ApplyKernel : public Kernel {
 public:
  explicit ApplyKernel(tensorflow::OpKernelConstruction* context)
      : Kernel(context) {
    OP_REQUIRES_OK(context, attributes_.Read(context->def()));
  }

 protected:
  ApplyAttributes attributes_;
};

// Inputs of an op that are in the host's memory, whatever its device.
std::vector<std::string> HostInputs(const RuleInfo& rule, OpForm form);

// Registers `Op`, an ApplyKernel, for all ops.
template <typename Op>
bool RegisterApplyKernels() {
  for (const Optimizer& optimizer : AllOptimizers()) {
    for (const OpForm form : optimizer.rule.forms()) {
      RegisterKernel<Op>(absl::StrCat(form.prefix(), optimizer.rule.op),
                         kKernelDevice, HostInputs(optimizer.rule, form));
    }
  }
  return true;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_APPLY_LAUNCH_H_
