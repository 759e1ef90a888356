#include "tf_opt/cc/xla/measure_xla_op.h"

#include <string>

#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "tf_opt/cc/xla/measured_operands.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"

namespace tf_opt {
namespace {

using ::tensorflow::DataType;

class Kernel : public tensorflow::XlaOpKernel {
 public:
  explicit Kernel(tensorflow::OpKernelConstruction* context)
      : XlaOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
    OP_REQUIRES_OK(context, AttributesOf(context, &attributes_));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    MeasuredOperands operands;
    OP_REQUIRES_OK(context, operands.Read(context, dtype_));
    CustomCall call(context->builder());
    for (const auto* arrays : {&operands.gradients, &operands.accumulators}) {
      for (const xla::XlaOp array : *arrays) {
        OP_REQUIRES_OK(context, call.AddArgument(array));
      }
    }
    for (const char* number : {"gradient_scale", "enabled"}) {
      OP_REQUIRES_OK(context, call.AddArgument(context->Input(number)));
    }
    xla::XlaOp sums, finite;
    call.AddResult(
        xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::F64, {count_}),
        &sums);
    call.AddResult(
        xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::PRED, {count_}),
        &finite);
    call.Make(type_string(), attributes_);
    context->SetOutput(0, sums);
    context->SetOutput(1, finite);
  }

 private:
  DataType dtype_ = tensorflow::DT_INVALID;
  int count_ = 0;
  std::string attributes_;
};

}  // namespace

bool RegisterMeasureXlaOp(const std::string& name) {
  for (const DataType type : kElementTypes) {
    tensorflow::kernel_factory::OpKernelRegistrar(
        tensorflow::KernelDefBuilder(name.c_str())
            .Device(kXlaCpuDevice)
            .TypeConstraint("T", type)
            .Build(),
        name,
        [](tensorflow::OpKernelConstruction* context) -> tensorflow::OpKernel* {
          return new Kernel(context);
        });
  }
  return true;
}

}  // namespace tf_opt
