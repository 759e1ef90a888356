#include "absl/status/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_opt {
namespace {

using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

// Kernels check the inputs' shapes.
absl::Status MeasureShapes(InferenceContext* c) {
  int count;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &count));
  c->set_output(0, c->Vector(count));
  c->set_output(1, c->Vector(count));
  return absl::OkStatus();
}

absl::Status MergeShapes(InferenceContext* c) {
  int count;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &count));
  for (int i = 0; i < count; ++i) {
    ShapeHandle sums = c->input(i);
    if (c->RankKnown(sums) && c->Rank(sums) > 0) {
      TF_RETURN_IF_ERROR(c->ReplaceDim(sums, 0, c->UnknownDim(), &sums));
    }
    c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
    c->set_output(count + i, sums);
  }
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("TfOpt>MeasureGradients")
    .Input("gradients: N * T")
    .Input("rows: num_rows * int64")
    .Input("accumulators: num_accumulators * resource")
    .Input("gradient_scale: double")
    .Input("enabled: bool")
    .Output("sums_of_squares: double")
    .Output("finite: bool")
    .Attr("N: int >= 1")
    .Attr("num_rows: int >= 0")
    .Attr("num_accumulators: int >= 0")
    .Attr("T: {half, bfloat16, float, double}")
    .SetIsStateful()
    .SetShapeFn(MeasureShapes)
    .Doc(R"(
Measures many gradients in one launch that reads each gradient once.

Does what tf_opt.functional.measure_gradients does. The order of a sum depends
only on the number of elements, so its bits are the same on any number of
threads.

gradients: Dense tensors of one type and of any shapes.
rows: The rows of its accumulator that each gradient has, ascending, a vector
  for each gradient; in other rows it is zero. Or empty: all rows.
accumulators: Variables to add, of the gradients' shapes; or empty.
gradient_scale: Factor of the gradients.
enabled: Whether to measure. If not, sums are 0 and all gradients are finite.
sums_of_squares: A vector with one element for each gradient.
finite: A vector with one element for each gradient.
)");

REGISTER_OP("TfOpt>MergeSlices")
    .Input("gradients: N * T")
    .Input("indices: N * Tindices")
    .Input("accumulated_rows: num_accumulated_rows * Tindices")
    .Input("table_rows: int64")
    .Output("rows: N * Tindices")
    .Output("sums: N * T")
    .Attr("N: int >= 1")
    .Attr("num_accumulated_rows: int >= 0")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("Tindices: {int32, int64}")
    .Attr("tables: list(string) = []")
    .SetShapeFn(MergeShapes)
    .Doc(R"(
Sums the repeated rows of many gradients that are slices, in one launch.

Rows are summed in the order of their occurrence, in float32 or float64, and
rounded once. On a GPU the results have as many rows as indices and
accumulated_rows together: at their end, rows that are 1 less than the greatest
number of their type, with sums of zero, which ops on a GPU leave out.

gradients: The values of the slices, of one type.
indices: The row of each of the values, a vector for each gradient.
accumulated_rows: More rows that occur, with a gradient of zero, a vector for
  each gradient; or empty.
table_rows: The number of rows of each variable.
tables: The variables' names in errors; or empty.
rows: The rows that occur, sorted, each once: a vector for each gradient.
sums: The sums of these rows.
)");

}  // namespace tf_opt
