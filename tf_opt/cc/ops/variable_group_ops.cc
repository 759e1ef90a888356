#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace tf_opt {

// An empty group: one handle that will stand for many variables.
REGISTER_OP("TfOpt>VariableGroup")
    .Output("group: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

// Fills a group, once. It keeps its variables alive, sees whatever is assigned
// to them, and lives as long as its handle.
REGISTER_OP("TfOpt>VariableGroupFill")
    .Input("group: resource")
    .Input("variables: N * resource")
    .Attr("N: int >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

}  // namespace tf_opt
