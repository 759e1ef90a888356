#include "tf_opt/cc/xla/lowered_slices.h"

#include "absl/status/statusor.h"
#include "tf_opt/cc/xla/hlo_rows.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/shape.h"

namespace tf_opt {
namespace {

using Integer = HloNumbers::Integer;

Integer Iota(xla::XlaBuilder* builder, int64_t size) {
  return Integer(xla::Iota(builder, xla::S64, size));
}

// Which of an array's rows count.
HloBoolean Counted(const SliceArray& array) {
  return Iota(array.value.builder(), array.room) < Integer(array.count);
}

Integer RowsOf(const SliceArray& array) {
  return Integer(xla::ConvertElementType(array.value, xla::S64));
}

// An array's rows, where there is room for so many.
xla::XlaOp InRoom(const SliceArray& array, int64_t room) {
  if (array.room >= room) return xla::SliceInDim(array.value, 0, room, 1, 0);
  const absl::StatusOr<xla::Shape> shape =
      array.value.builder()->GetShape(array.value);
  if (!shape.ok()) return array.value.builder()->ReportError(shape.status());
  return xla::PadInDim(array.value,
                       xla::Zero(array.value.builder(), shape->element_type()),
                       0, 0, room - array.room);
}

}  // namespace

LoweredSlices::LoweredSlices(const SliceOperands& operands, int i,
                             const std::vector<int64_t>& table)
    : table_(table) {
  const SliceArray& indices = operands.indices[i];
  // Ops may have found more room for one than for the other.
  values_ = InRoom(operands.values[i], indices.room);
  xla::XlaBuilder* const builder = values_.builder();
  Integer rows = RowsOf(indices);
  HloBoolean counted = Counted(indices);
  size_ = indices.room;
  if (!operands.accumulated_rows.empty()) {
    const SliceArray& more = operands.accumulated_rows[i];
    const auto both = [&](const auto& a, const auto& b) {
      return xla::ConcatInDim(builder, {a.In(builder), b.In(builder)}, 0);
    };
    rows = Integer(both(rows, RowsOf(more)));
    counted = HloBoolean(both(counted, Counted(more)));
    size_ += more.room;
  }
  const HloBoolean in_table = rows >= 0 && rows < table_[0];
  const HloBoolean is_there = counted && in_table;
  are_valid_ = HoldsForAll(Select(counted, in_table, HloBoolean(true))) &&
               Integer(operands.values[i].count) == Integer(indices.count);

  const Integer number = Iota(builder, size_);
  const Integer in_place = Select(is_there, rows, Integer(0));
  rows_ = in_place.In(builder);
  const Integer row_or_none = Select(is_there, rows, Integer(-1));
  Integer owner = number;
  if (table_[0] > 0) {
    const xla::XlaOp first_of_rows =
        LeastOfRows(xla::Broadcast(Integer(size_).In(builder), {table_[0]}),
                    row_or_none.In(builder), number.In(builder));
    owner = Integer(GatherRows(first_of_rows, rows_));
  }
  are_first_ = (is_there && owner == number).In(builder);

  const auto of_values = [&](const Integer& of_all) {
    return xla::SliceInDim(of_all.In(builder), 0, indices.room, 1, 0);
  };
  owners_ = of_values(Select(is_there, owner, Integer(-1)));
  rows_of_values_ = of_values(row_or_none);
}

xla::XlaOp LoweredSlices::SumInto(int64_t rows, xla::XlaOp owners,
                                  xla::XlaOp values, xla::XlaOp zero) const {
  std::vector<int64_t> dimensions = table_;
  dimensions[0] = rows;
  const xla::XlaOp zeros = xla::Broadcast(zero, dimensions);
  return rows == 0 ? zeros : AddToRows(zeros, owners, values);
}

}  // namespace tf_opt
