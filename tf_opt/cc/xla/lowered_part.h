// What a step goes over of a variable and of its state, in a program that XLA
// compiles: all of it, or some rows of a table.
#ifndef TF_OPT_CC_XLA_LOWERED_PART_H_
#define TF_OPT_CC_XLA_LOWERED_PART_H_

#include <cstdint>
#include <vector>

#include "tf_opt/cc/xla/hlo.h"
#include "tf_opt/cc/xla/lowered_slices.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

class LoweredPart {
 public:
  // All of a variable of these dimensions.
  LoweredPart(xla::XlaBuilder* builder, const std::vector<int64_t>& variable);

  // Of a variable that is a table, the rows that occur in `slices`.
  LoweredPart(const std::vector<int64_t>& variable,
              const LoweredSlices& slices);

  // The part of an array of the variable's shape; or, of several such, one
  // after the other, of the one with the number `index`.
  xla::XlaOp Take(xla::XlaOp array) const;
  xla::XlaOp Take(xla::XlaOp arrays, const HloNumbers::Integer& index) const;

  // The array or arrays with another such part, or a scalar in all of it.
  xla::XlaOp Put(xla::XlaOp array, xla::XlaOp part) const;
  xla::XlaOp Put(xla::XlaOp arrays, const HloNumbers::Integer& index,
                 xla::XlaOp part) const;

  // The numbers of the part's elements in the variable.
  HloNumbers::Integer ElementNumbers() const;

 private:
  bool is_all() const { return !rows_.valid(); }

  // Of several arrays: the dimensions of one, where one begins, and all of them
  // as one array, with the numbers that an array's rows have there.
  std::vector<int64_t> AsOneOfSeveral() const;
  std::vector<xla::XlaOp> Start(const HloNumbers::Integer& index) const;
  xla::XlaOp Joined(xla::XlaOp arrays) const;
  xla::XlaOp RowsOf(const HloNumbers::Integer& index, xla::XlaOp rows) const;

  xla::XlaOp WrittenRows(xla::XlaOp rows) const;
  xla::XlaOp BroadcastToPart(xla::XlaOp value) const;

  xla::XlaBuilder* builder_;
  std::vector<int64_t> variable_, part_;  // Their dimensions.
  // Which rows these are, and whether each is written; not valid if it is all.
  xla::XlaOp rows_, are_written_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_LOWERED_PART_H_
