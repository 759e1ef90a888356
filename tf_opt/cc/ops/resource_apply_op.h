// How a resource-apply op is registered: from the description of its rule, so
// that what kernels read is what the op takes.
#ifndef TF_OPT_CC_OPS_RESOURCE_APPLY_OP_H_
#define TF_OPT_CC_OPS_RESOURCE_APPLY_OP_H_

#include <string>
#include <vector>

#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {

struct ResourceApplyOp {
  // An input that is a scalar.
  struct Scalar {
    std::string name;
    std::string type;
  };

  template <typename Numbers>
  static Scalar ScalarOf(const ScalarInput<Numbers>& input) {
    return {input.name, input.boolean != nullptr   ? "bool"
                        : input.integer != nullptr ? "int64"
                                                   : "double"};
  }

  template <typename Description>
  static ResourceApplyOp Of(Description, const std::string& name) {
    ResourceApplyOp op;
    op.name = name;
    for (const auto& input : Description::kScalars) {
      op.scalars.push_back(ScalarOf(input));
    }
    for (const Operand& slot : Description::kSlotOperands) {
      op.slots.push_back(slot);
      if (slot.is_row_of_table()) {
        op.scalars.push_back({slot.row_input, "int64"});
      }
    }
    return op;
  }

  std::string name;  // "X" of TfOpt>ResourceApplyX.
  std::vector<Operand> slots;
  std::vector<Scalar> scalars;
  // Attributes that only this op has, as in Attr().
  std::vector<std::string> attributes;
  // Documentation; `arguments` describes slots, scalars and own attributes as
  // `name: text` each. What all ops have is added.
  std::string summary;
  std::string arguments;
};

// Registers it, while the library is loaded, and its twin for sparse gradients,
// TfOpt>ResourceSparseApplyX.
bool RegisterResourceApplyOp(const ResourceApplyOp& op);

}  // namespace tf_opt

#endif  // TF_OPT_CC_OPS_RESOURCE_APPLY_OP_H_
