// Gradients that are slices, as an op that XLA compiles is given them: read and
// checked.
#ifndef TF_OPT_CC_XLA_SLICE_OPERANDS_H_
#define TF_OPT_CC_XLA_SLICE_OPERANDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {

// Values, indices or accumulated rows. Only an op may know how many rows they
// are; then there are as many as there is room for.
struct SliceArray {
  xla::XlaOp value;
  xla::XlaOp count;  // How many of these rows count, in int64.
};

struct SliceOperands {
  // Checks their shapes against those of the tables and reads them.
  absl::Status Read(tensorflow::XlaOpKernelContext* context,
                    const SliceAttributes& attributes,
                    const std::vector<tensorflow::TensorShape>& tables);

  // One for each table; of accumulated rows there may be none.
  std::vector<SliceArray> values, indices, accumulated_rows;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_SLICE_OPERANDS_H_
