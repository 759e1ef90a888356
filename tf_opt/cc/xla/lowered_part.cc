#include "tf_opt/cc/xla/lowered_part.h"

#include "tf_opt/cc/xla/hlo_rows.h"

namespace tf_opt {
namespace {

using Integer = HloNumbers::Integer;

int64_t ElementsOf(const std::vector<int64_t>& dimensions, int first) {
  int64_t elements = 1;
  for (std::size_t k = first; k < dimensions.size(); ++k) {
    elements *= dimensions[k];
  }
  return elements;
}

}  // namespace

LoweredPart::LoweredPart(xla::XlaBuilder* builder,
                         const std::vector<int64_t>& variable)
    : builder_(builder), variable_(variable), part_(variable) {}

LoweredPart::LoweredPart(const std::vector<int64_t>& variable,
                         const LoweredSlices& slices)
    : builder_(slices.rows().builder()),
      variable_(variable),
      part_(variable),
      rows_(slices.rows()),
      are_written_(slices.are_first()) {
  part_[0] = slices.size();
}

xla::XlaOp LoweredPart::Take(xla::XlaOp array) const {
  return is_all() ? array : GatherRows(array, rows_);
}

xla::XlaOp LoweredPart::Take(xla::XlaOp arrays, const Integer& index) const {
  if (!is_all()) return GatherRows(Joined(arrays), RowsOf(index, rows_));
  return xla::Reshape(xla::DynamicSlice(arrays, Start(index), AsOneOfSeveral()),
                      variable_);
}

xla::XlaOp LoweredPart::Put(xla::XlaOp array, xla::XlaOp part) const {
  part = BroadcastToPart(part);
  return is_all() ? part : ReplaceRows(array, WrittenRows(rows_), part);
}

xla::XlaOp LoweredPart::Put(xla::XlaOp arrays, const Integer& index,
                            xla::XlaOp part) const {
  part = BroadcastToPart(part);
  if (is_all()) {
    return xla::DynamicUpdateSlice(arrays, xla::Reshape(part, AsOneOfSeveral()),
                                   Start(index));
  }
  return xla::Reshape(
      ReplaceRows(Joined(arrays), WrittenRows(RowsOf(index, rows_)), part),
      DimensionsOf(arrays));
}

Integer LoweredPart::ElementNumbers() const {
  const auto numbers = [this](int64_t count, std::vector<int64_t> dimensions) {
    return xla::Reshape(xla::Iota(builder_, xla::S64, count), dimensions);
  };
  if (is_all()) return Integer(numbers(ElementsOf(variable_, 0), variable_));
  const int64_t width = ElementsOf(variable_, 1);
  const Integer first = Integer(rows_) * Integer(width);
  return Integer(BroadcastRows(first.In(builder_), part_)) +
         Integer(xla::Broadcast(
             numbers(width, {variable_.begin() + 1, variable_.end()}),
             {part_[0]}));
}

xla::XlaOp LoweredPart::BroadcastToPart(xla::XlaOp value) const {
  return DimensionsOf(value).empty() ? xla::Broadcast(value, part_) : value;
}

std::vector<int64_t> LoweredPart::AsOneOfSeveral() const {
  std::vector<int64_t> dimensions = variable_;
  dimensions.insert(dimensions.begin(), 1);
  return dimensions;
}

std::vector<xla::XlaOp> LoweredPart::Start(const Integer& index) const {
  std::vector<xla::XlaOp> start(variable_.size() + 1, Integer(0).In(builder_));
  start[0] = index.In(builder_);
  return start;
}

xla::XlaOp LoweredPart::Joined(xla::XlaOp arrays) const {
  std::vector<int64_t> joined = variable_;
  joined[0] *= DimensionsOf(arrays)[0];
  return xla::Reshape(arrays, joined);
}

xla::XlaOp LoweredPart::RowsOf(const Integer& index, xla::XlaOp rows) const {
  return (index * Integer(variable_[0]) + Integer(rows)).In(builder_);
}

xla::XlaOp LoweredPart::WrittenRows(xla::XlaOp rows) const {
  // The others are no rows, and each another one.
  const Integer none =
      Integer(-1) - Integer(xla::Iota(builder_, xla::S64, part_[0]));
  return Select(HloBoolean(are_written_), Integer(rows), none).In(builder_);
}

}  // namespace tf_opt
