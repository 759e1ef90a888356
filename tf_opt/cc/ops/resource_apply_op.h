// How a resource-apply op is registered: from the description of its rule, so
// that what kernels read is what the op takes.
#ifndef TF_OPT_CC_OPS_RESOURCE_APPLY_OP_H_
#define TF_OPT_CC_OPS_RESOURCE_APPLY_OP_H_

#include <iterator>
#include <string>
#include <vector>

#include "tf_opt/cc/rules/operand.h"

namespace tf_opt {

struct ResourceApplyOp {
  // An input that is a scalar.
  struct Scalar {
    std::string name;
    bool is_integer;
  };

  template <typename Description>
  static ResourceApplyOp Of(Description, const std::string& name) {
    ResourceApplyOp op;
    op.name = name;
    op.slots.assign(std::begin(Description::kSlotOperands),
                    std::end(Description::kSlotOperands));
    for (const auto& input : Description::kScalars) {
      op.scalars.push_back({input.name, input.integer != nullptr});
    }
    for (const Operand& slot : op.slots) {
      if (slot.is_row_of_table()) op.scalars.push_back({slot.row_input, true});
    }
    return op;
  }

  std::string name;
  std::vector<Operand> slots;
  std::vector<Scalar> scalars;
  // Attributes that only this op has, as in Attr().
  std::vector<std::string> attributes;
  // Documentation: the rule, then its slots, scalars and own attributes as
  // `name: text` each. What all ops have is added.
  std::string rule;
  std::string arguments;
};

// Registers it, while the library is loaded, and its twin for sparse gradients:
// TfOpt>ResourceApplyX and TfOpt>ResourceSparseApplyX.
bool RegisterResourceApplyOp(const ResourceApplyOp& op);

}  // namespace tf_opt

#endif  // TF_OPT_CC_OPS_RESOURCE_APPLY_OP_H_
