#include "tf_opt/cc/xla/hlo_rows.h"

#include "absl/status/statusor.h"
#include "tf_opt/cc/xla/hlo.h"
#include "xla/shape.h"
#include "xla/xla_data.pb.h"

namespace tf_opt {
namespace {

// The dimensions within a row.
template <typename Add>
void AddInnerDimensions(xla::XlaOp table, const Add& add) {
  const int64_t rank = static_cast<int64_t>(DimensionsOf(table).size());
  for (int64_t k = 1; k < rank; ++k) add(k);
}

xla::XlaOp CombineRows(xla::XlaOp table, xla::XlaOp rows, xla::XlaOp values,
                       bool are_unique, const Combination& combine) {
  xla::XlaBuilder* const builder = table.builder();
  xla::ScatterDimensionNumbers numbers;
  AddInnerDimensions(table,
                     [&](int64_t k) { numbers.add_update_window_dims(k); });
  numbers.add_inserted_window_dims(0);
  numbers.add_scatter_dims_to_operand_dims(0);
  numbers.set_index_vector_dim(1);
  const absl::StatusOr<xla::Shape> shape = builder->GetShape(table);
  if (!shape.ok()) return builder->ReportError(shape.status());
  return xla::Scatter(table, rows, values,
                      Combining(builder, shape->element_type(), combine),
                      numbers, /*indices_are_sorted=*/false, are_unique);
}

}  // namespace

std::vector<int64_t> DimensionsOf(xla::XlaOp array) {
  const absl::StatusOr<xla::Shape> shape = array.builder()->GetShape(array);
  if (!shape.ok()) {
    array.builder()->ReportError(shape.status());
    return {};
  }
  return {shape->dimensions().begin(), shape->dimensions().end()};
}

xla::XlaOp GatherRows(xla::XlaOp table, xla::XlaOp rows) {
  xla::GatherDimensionNumbers numbers;
  AddInnerDimensions(table, [&](int64_t k) { numbers.add_offset_dims(k); });
  numbers.add_collapsed_slice_dims(0);
  numbers.add_start_index_map(0);
  numbers.set_index_vector_dim(1);
  std::vector<int64_t> sizes = DimensionsOf(table);
  if (!sizes.empty()) sizes[0] = 1;
  return xla::Gather(table, rows, numbers, sizes);
}

xla::XlaOp ReplaceRows(xla::XlaOp table, xla::XlaOp rows, xla::XlaOp values) {
  return CombineRows(table, rows, values, /*are_unique=*/true,
                     [](xla::XlaOp, xla::XlaOp value) { return value; });
}

xla::XlaOp AddToRows(xla::XlaOp table, xla::XlaOp rows, xla::XlaOp values) {
  return CombineRows(
      table, rows, values, /*are_unique=*/false,
      [](xla::XlaOp sum, xla::XlaOp value) { return xla::Add(sum, value); });
}

xla::XlaOp LeastOfRows(xla::XlaOp vector, xla::XlaOp rows, xla::XlaOp numbers) {
  return CombineRows(vector, rows, numbers, /*are_unique=*/false,
                     [](xla::XlaOp a, xla::XlaOp b) { return xla::Min(a, b); });
}

xla::XlaOp BroadcastRows(xla::XlaOp of_rows,
                         const std::vector<int64_t>& dimensions) {
  return xla::BroadcastInDim(of_rows, dimensions, {0});
}

}  // namespace tf_opt
