// TfOpt>MeasureGradients in a program that XLA compiles for any device, in
// XLA's own operations.
#ifndef TF_OPT_CC_XLA_LOWERED_MEASURE_OP_H_
#define TF_OPT_CC_XLA_LOWERED_MEASURE_OP_H_

#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"

namespace tf_opt {

class LoweredMeasureOp : public tensorflow::XlaOpKernel {
 public:
  explicit LoweredMeasureOp(tensorflow::OpKernelConstruction* context);
  void Compile(tensorflow::XlaOpKernelContext* context) override;

 private:
  tensorflow::DataType dtype_ = tensorflow::DT_INVALID;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_LOWERED_MEASURE_OP_H_
