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

x is computed in float32 (float64 if T is double), `gradient_scale` rounded to
that; the squares and their sum in float64, in an order that depends on nothing
but the number of elements. Nothing is written to the accumulators, which are
read under their locks.

On a GPU all inputs but the handles are in its memory, and nothing is read back.

gradients: Tensors of any shapes.
accumulators: Handles of variables, float32 (double if T is double), one for
  each of `gradients` and of its shape; or one TfOpt>VariableGroup of them; or
  none.
gradient_scale: Scalar.
enabled: Scalar. If false nothing is read: the sums are 0 and all is finite.
sums_of_squares: Vector, one element for each of `gradients`; infinite where it
  is too large for float64 although all is finite.
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
Measures sparse gradients: as TfOpt>MeasureGradients the dense ones they mean.

Rows that are of the same row are summed first; what is measured are the sums,
with the same bits as those of a dense gradient, which is not made. On a GPU a row
that isn't there is printed by the device, and not counted; inside XLA it isn't
printed, and what has it is not finite.

gradients: For each table, some rows of its gradient.
indices: For each of `gradients`, a vector that says which row of the table each
  of its rows is.
accumulated_rows: Rows of each table, with repetitions, that were accumulated;
  or empty.
accumulators: As in TfOpt>MeasureGradients, of the tables' shapes.
gradient_scale: Scalar.
enabled: Scalar. If false nothing is read: the sums are 0 and all is finite.
rows: Vector in the host's memory, how many rows each table has. Inside XLA its
  value must be known when it compiles.
lazy: Whether, of what was accumulated, only the rows that occur are read.
tables: What an error calls the variables; or empty.
sums_of_squares: Vector, one element for each of `gradients`.
finite: Vector, likewise.
)doc");

}  // namespace tf_opt
