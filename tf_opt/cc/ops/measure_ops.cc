#include "tensorflow/core/framework/op.h"
#include "tf_opt/cc/ops/shape_functions.h"

namespace tf_opt {

// tf_opt.ops.measure_gradients documents both.
REGISTER_OP("TfOpt>MeasureGradients")
    .Input("gradients: N * T")
    .Input("accumulators: num_accumulators * resource")
    .Input("gradient_scale: double")
    .Input("enabled: bool")
    .Output("sums_of_squares: double")
    .Output("finite: bool")
    .Attr("N: int >= 1")
    .Attr("num_accumulators: int >= 0")
    .Attr("T: {half, bfloat16, float, double}")
    .SetIsStateful()
    .SetShapeFn(MeasureShapes);

REGISTER_OP("TfOpt>MeasureSparseGradients")
    .Input("gradients: N * T")
    .Input("indices: N * Tindices")
    .Input("accumulated_rows: num_accumulated_rows * Tindices")
    .Input("accumulators: num_accumulators * resource")
    .Input("gradient_scale: double")
    .Input("enabled: bool")
    .Input("rows: int64")  // In the host's memory.
    .Output("sums_of_squares: double")
    .Output("finite: bool")
    .Attr("N: int >= 1")
    .Attr("num_accumulated_rows: int >= 0")
    .Attr("num_accumulators: int >= 0")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("Tindices: {int32, int64}")
    .Attr("lazy: bool = false")
    .Attr("tables: list(string) = []")
    .SetIsStateful()
    .SetShapeFn(MeasureSparseShapes);

}  // namespace tf_opt
