// A resource-apply op in a program that XLA compiles for the CPU: calls of a
// function of ours, which update in place. apply_call.h is the other side of
// it.
#ifndef TF_OPT_CC_XLA_APPLY_XLA_OP_H_
#define TF_OPT_CC_XLA_APPLY_XLA_OP_H_

#include <iterator>
#include <string>
#include <vector>

#include "tf_opt/cc/rules/operand.h"

namespace tf_opt {

struct ApplyXlaOp {
  // That of an optimizer.
  template <typename Optimizer>
  static ApplyXlaOp Of(const std::string& name, bool sparse) {
    ApplyXlaOp op;
    op.name = name;
    op.sparse = sparse;
    op.slots.assign(std::begin(Optimizer::kSlotOperands),
                    std::end(Optimizer::kSlotOperands));
    for (const auto& scalar : Optimizer::kScalars) {
      op.scalars.push_back(scalar.name);
    }
    return op;
  }

  std::string name;  // Of the op, and of the function.
  std::vector<Operand> slots;
  std::vector<std::string> scalars;  // The rule's.
  bool sparse = false;               // Whether gradients are slices.
};

// Registers the op's kernels.
bool RegisterApplyXlaOp(const ApplyXlaOp& op);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_APPLY_XLA_OP_H_
