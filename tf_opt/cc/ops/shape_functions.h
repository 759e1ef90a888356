// The ops' shape functions.
#ifndef TF_OPT_CC_OPS_SHAPE_FUNCTIONS_H_
#define TF_OPT_CC_OPS_SHAPE_FUNCTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf_opt/cc/rules/operand.h"

namespace tf_opt {

// The operands of a resource-apply op in the order of its inputs.
std::vector<Operand> InputOrder(const std::vector<Operand>& slots);

// Checks what a graph knows before it runs; the kernel checks it again. A group
// of variables carries no shapes.
absl::Status CheckApplyShapes(tensorflow::shape_inference::InferenceContext* c,
                              const std::vector<Operand>& slots,
                              const std::vector<std::string>& scalars,
                              bool sparse);

// The same for MeasureGradients and MergeSlices.
absl::Status MeasureShapes(tensorflow::shape_inference::InferenceContext* c);
absl::Status MergeShapes(tensorflow::shape_inference::InferenceContext* c);

}  // namespace tf_opt

#endif  // TF_OPT_CC_OPS_SHAPE_FUNCTIONS_H_
