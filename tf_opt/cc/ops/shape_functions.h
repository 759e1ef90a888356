// Shape checks that the resource-apply ops share.
#ifndef TF_OPT_CC_OPS_SHAPE_FUNCTIONS_H_
#define TF_OPT_CC_OPS_SHAPE_FUNCTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_opt {

// A list of slots. A table's have their variable's shape behind a dimension of
// rows.
struct SlotList {
  SlotList(const char* name, bool is_table = false)
      : name(name), is_table(is_table) {}

  std::string name;
  bool is_table;
};

// Checks what a graph knows before it runs: `scalars` are scalars,
// `weight_decay` has one element for each of `variables`, and `gradients` and
// the slots (where `slots` names lists of variables, not groups) have their
// variable's shape. Every message names the argument.
absl::Status CheckApplyShapes(tensorflow::shape_inference::InferenceContext* c,
                              const std::vector<SlotList>& slots,
                              const std::vector<std::string>& scalars);

}  // namespace tf_opt

#endif  // TF_OPT_CC_OPS_SHAPE_FUNCTIONS_H_
