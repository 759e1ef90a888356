// The kernel of a resource-apply op for what XLA compiles for CPUs. It writes
// calls that update in place; apply_call.cc runs them.
#ifndef TF_OPT_CC_XLA_APPLY_XLA_OP_H_
#define TF_OPT_CC_XLA_APPLY_XLA_OP_H_

#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/rules/operand.h"

namespace tf_opt {

// Returns a new kernel of an op with these slots.
tensorflow::OpKernel* NewApplyXlaOp(tensorflow::OpKernelConstruction* context,
                                    const std::vector<Operand>& slots);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_APPLY_XLA_OP_H_
