// The ops' shape functions.
#ifndef TF_OPT_CC_OPS_SHAPE_FUNCTIONS_H_
#define TF_OPT_CC_OPS_SHAPE_FUNCTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf_opt/cc/rules/operand.h"

namespace tf_opt {

// The inputs of every resource-apply op that are one number for all variables
// or a vector with one for each.
inline constexpr const char* kPerVariableInputs[] = {
    "weight_decay", "learning_rate_factors", "gradient_factors",
    "variable_numbers"};

// The operands of a resource-apply op in the order of its inputs.
std::vector<Operand> InputOrder(const std::vector<Operand>& slots);

// Checks what a graph knows before it runs: `scalars` are scalars, the vectors
// have one element for each of `variables`, and `gradients` and all lists of
// variables (where they are no groups) have their variable's shape; `sparse`
// gradients have as many rows as there are `indices`. Every message names the
// argument.
absl::Status CheckApplyShapes(tensorflow::shape_inference::InferenceContext* c,
                              const std::vector<Operand>& slots,
                              const std::vector<std::string>& scalars,
                              bool sparse);

// The same for TfOpt>MeasureGradients: `accumulators` have their gradient's
// shape, the numbers are scalars. There is one result for each gradient.
absl::Status MeasureShapes(tensorflow::shape_inference::InferenceContext* c);

// The same for TfOpt>MeasureSparseGradients.
absl::Status MeasureSparseShapes(
    tensorflow::shape_inference::InferenceContext* c);

}  // namespace tf_opt

#endif  // TF_OPT_CC_OPS_SHAPE_FUNCTIONS_H_
