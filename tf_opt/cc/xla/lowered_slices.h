// The gradient of one table as slices, in a program that XLA compiles: each row
// that is said, once, with the sum of all that is said of it.
#ifndef TF_OPT_CC_XLA_LOWERED_SLICES_H_
#define TF_OPT_CC_XLA_LOWERED_SLICES_H_

#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/xla/hlo.h"
#include "tf_opt/cc/xla/hlo_element.h"
#include "tf_opt/cc/xla/slice_operands.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

class LoweredSlices {
 public:
  // Those of the i-th table, which has these dimensions.
  LoweredSlices(const SliceOperands& operands, int i,
                const std::vector<int64_t>& table);

  // Whether all rows that are said are the table's, each with its values.
  const HloBoolean& are_valid() const { return are_valid_; }

  // How many rows are said, with repetitions. For each of these: which it is,
  // or some row of the table, and whether it is one and stands there for the
  // first time.
  int64_t size() const { return size_; }
  xla::XlaOp rows() const { return rows_; }
  xla::XlaOp are_first() const { return are_first_; }

  // The sums of the first ones, of type T; zeros for the others.
  template <typename T>
  xla::XlaOp Sums() const {
    return Sum<T>(size_, owners_);
  }

  // The gradient of the whole table, of type T.
  template <typename T>
  xla::XlaOp Dense() const {
    return Sum<T>(table_[0], rows_of_values_);
  }

 private:
  // Formed in the arithmetic's type, as everywhere.
  template <typename T>
  xla::XlaOp Sum(int64_t rows, xla::XlaOp owners) const {
    using V = ComputeType<T>;
    xla::XlaBuilder* const builder = values_.builder();
    const V values = HloConvert::Widen(T(values_));
    const V sum(SumInto(rows, owners, values.In(builder), V(0).In(builder)));
    return HloConvert::Narrow(sum, T()).In(builder);
  }

  // The values, each row added to its owner of so many rows.
  xla::XlaOp SumInto(int64_t rows, xla::XlaOp owners, xla::XlaOp values,
                     xla::XlaOp zero) const;

  std::vector<int64_t> table_;
  xla::XlaOp values_;
  int64_t size_;
  HloBoolean are_valid_;
  xla::XlaOp rows_, are_first_;
  // For each of the values' rows which one of these it is added to, and which
  // of the table's; -1 if it doesn't count.
  xla::XlaOp owners_, rows_of_values_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_LOWERED_SLICES_H_
