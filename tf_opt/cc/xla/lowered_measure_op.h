// TfOpt>MeasureGradients and TfOpt>MeasureSparseGradients in a program that XLA
// compiles for any device, in XLA's own operations.
#ifndef TF_OPT_CC_XLA_LOWERED_MEASURE_OP_H_
#define TF_OPT_CC_XLA_LOWERED_MEASURE_OP_H_

#include <cstdint>
#include <vector>

#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/kernels/row_slices.h"

namespace tf_opt {

class LoweredMeasureOp : public tensorflow::XlaOpKernel {
 public:
  LoweredMeasureOp(tensorflow::OpKernelConstruction* context, bool sparse);
  void Compile(tensorflow::XlaOpKernelContext* context) override;

 private:
  const bool sparse_;
  tensorflow::DataType dtype_ = tensorflow::DT_INVALID;
  SliceAttributes slice_attributes_;
  int count_ = 0;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_LOWERED_MEASURE_OP_H_
