#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace tf_opt {

REGISTER_OP("TfOpt>VariableGroup")
    .Output("group: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Makes an empty group: one handle that will stand for many variables.

Passing a thousand handles to an op costs TensorFlow more time than a thousand
small updates take; a group passes them as one. The group keeps its variables
alive, sees whatever is assigned to them, and lives as long as its handle.

group: The handle.
)doc");

REGISTER_OP("TfOpt>VariableGroupFill")
    .Input("group: resource")
    .Input("variables: N * resource")
    .Attr("N: int >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Fills a group with its variables; a group is filled once.

group: An empty group, from TfOpt>VariableGroup.
variables: Handles of its variables, in order.
)doc");

}  // namespace tf_opt
