#include "tensorflow/core/framework/op.h"
#include "tf_opt/cc/ops/shape_functions.h"

namespace tf_opt {

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
    .SetShapeFn(MeasureShapes)
    .Doc(R"doc(
Measures gradients: the sum of squares of each, and whether it is finite.

For each gradient g, with its accumulator if there are any:

  x <- gradient_scale * g + accumulator
  sum_of_squares <- sum of x^2
  finite <- whether no x is infinite or a NaN

x and `gradient_scale` are float32 (float64 if T is double); the squares and their
sum are float64, in an order that depends only on the number of elements. The op
reads the accumulators under their locks and doesn't write to them.

On a GPU all inputs except the handles are in device memory, and nothing is read
back.

gradients: Tensors of any shapes.
accumulators: Handles of variables, float32 (double if T is double), one for
  each of `gradients` and of its shape; or one TfOpt>VariableGroup of them; or
  none.
gradient_scale: Scalar.
enabled: Scalar. If false, nothing is read: the sums are 0 and all is finite.
sums_of_squares: Vector, one element for each of `gradients`; infinite if a sum
  is too large for float64, even if all is finite.
finite: Vector, one element for each of `gradients`.
)doc");

REGISTER_OP("TfOpt>MeasureSparseGradients")
    .Input("gradients: N * T")
    .Input("indices: N * Tindices")
    .Input("accumulated_rows: num_accumulated_rows * Tindices")
    .Input("accumulators: num_accumulators * resource")
    .Input("gradient_scale: double")
    .Input("enabled: bool")
    .Input("rows: int64")
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
    .SetShapeFn(MeasureSparseShapes)
    .Doc(R"doc(
Measures sparse gradients, as TfOpt>MeasureGradients measures dense ones.

The op sums rows for the same table row first and measures the sums, with the same
bits as for a dense gradient, which it doesn't make. There is no kernel for GPUs.

gradients: Some rows of the gradient of each table.
indices: For each of `gradients`, a vector with the table row of each of its rows.
accumulated_rows: Rows of each table, with repetitions, that were accumulated;
  or empty.
accumulators: As in TfOpt>MeasureGradients, of the tables' shapes.
gradient_scale: Scalar.
enabled: Scalar. If false, nothing is read: the sums are 0 and all is finite.
rows: Vector in the host's memory, the number of rows of each table. Inside XLA
  its value must be known at compile time.
lazy: If true, only the rows that occur are read from the accumulators.
tables: Names of the variables for error messages; or empty.
sums_of_squares: Vector, one element for each of `gradients`.
finite: Vector, one element for each of `gradients`.
)doc");

}  // namespace tf_opt
