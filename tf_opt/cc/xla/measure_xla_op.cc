#include "tf_opt/cc/xla/measure_xla_op.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"

namespace tf_opt {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::TensorShape;

class Kernel : public tensorflow::XlaOpKernel {
 public:
  explicit Kernel(tensorflow::OpKernelConstruction* context)
      : XlaOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
    OP_REQUIRES_OK(context, AttributesOf(context, &attributes_));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    CustomCall call(context->builder());
    int begin, end;
    OP_REQUIRES_OK(context, InputRange("gradients", &begin, &end));
    for (int i = begin; i < end; ++i) {
      OP_REQUIRES_OK(context, call.AddArgument(context->Input(i)));
    }
    const int gradients = begin;
    OP_REQUIRES_OK(context, InputRange("accumulators", &begin, &end));
    OP_REQUIRES(context, begin == end || end - begin == count_,
                absl::InvalidArgumentError(absl::StrCat(
                    "`accumulators` must be empty or have one variable for "
                    "each of the ",
                    count_, " `gradients`, got ", end - begin)));
    for (int i = 0; i < end - begin; ++i) {
      TensorShape shape;
      xla::XlaOp value;
      OP_REQUIRES_OK(
          context, context->ReadVariableInput(begin + i, ArithmeticType(dtype_),
                                              &shape, &value));
      const absl::StatusOr<TensorShape> expected =
          ShapeOf(context, gradients + i);
      OP_REQUIRES_OK(context, expected.status());
      OP_REQUIRES_OK(context, CheckShape("accumulators", i, *expected,
                                         "gradients", shape));
      OP_REQUIRES_OK(context, call.AddArgument(value));
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
