// The optimizers as the kernels of their resource-apply ops see them, and the
// attributes of such an op.
#ifndef TF_OPT_CC_KERNELS_APPLY_ATTRIBUTES_H_
#define TF_OPT_CC_KERNELS_APPLY_ATTRIBUTES_H_

#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tf_opt/cc/engines/cpu/apply_on_cpu.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/rule_info.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

struct Optimizer {
  RuleInfo rule;
  void (*apply_on_cpu)(const CpuStep& step);
};

const std::vector<Optimizer>& AllOptimizers();

struct ApplyAttributes {
  // Reads the node of an op.
  absl::Status Read(const tensorflow::NodeDef& node);

  const Optimizer* optimizer = nullptr;
  int count = 0;  // Of the op's variables.
  // Slots that the op has, in the rule's order, and operands of waiting rows.
  std::vector<Operand> slots;
  int variant = 0;    // Of the rule; see rules/description.h.
  RuleValues values;  // Only the modes.
  FrameInputs frame;  // Without scalars.
  SliceAttributes slices;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_APPLY_ATTRIBUTES_H_
