// Rows of tables in a program that XLA compiles: a table is an array, and a row
// of it what one number of its first dimension says. Rows are said by vectors
// of int64.
#ifndef TF_OPT_CC_XLA_HLO_ROWS_H_
#define TF_OPT_CC_XLA_HLO_ROWS_H_

#include <cstdint>
#include <vector>

#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

// Empty if it was made wrong: the program that is being made says why.
std::vector<int64_t> DimensionsOf(xla::XlaOp array);

// These rows of a table that has some; each must be one.
xla::XlaOp GatherRows(xla::XlaOp table, xla::XlaOp rows);

// The table with these rows instead of its own, each at most once; what is none
// of its rows is left out.
xla::XlaOp ReplaceRows(xla::XlaOp table, xla::XlaOp rows, xla::XlaOp values);

// The table with these added to its rows, each any number of times, likewise;
// the order is XLA's.
xla::XlaOp AddToRows(xla::XlaOp table, xla::XlaOp rows, xla::XlaOp values);

// The vector with the least of itself and these numbers, likewise.
xla::XlaOp LeastOfRows(xla::XlaOp vector, xla::XlaOp rows, xla::XlaOp numbers);

// What is one for each row, for each of its elements.
xla::XlaOp BroadcastRows(xla::XlaOp of_rows,
                         const std::vector<int64_t>& dimensions);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_HLO_ROWS_H_
