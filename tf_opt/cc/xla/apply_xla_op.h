// The kernel of a resource-apply op for what XLA compiles for CPUs. It writes
// calls that update in place; apply_call.h runs them.
#ifndef TF_OPT_CC_XLA_APPLY_XLA_OP_H_
#define TF_OPT_CC_XLA_APPLY_XLA_OP_H_

#include <iterator>
#include <string>
#include <vector>

#include "tf_opt/cc/rules/operand.h"

namespace tf_opt {

struct ApplyXlaOp {
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

  std::string name;  // The op's and the function's.
  std::vector<Operand> slots;
  std::vector<std::string> scalars;  // The rule's.
  bool sparse = false;               // True if gradients are slices.
};

// Registers the op's kernels.
bool RegisterApplyXlaOp(const ApplyXlaOp& op);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_APPLY_XLA_OP_H_
