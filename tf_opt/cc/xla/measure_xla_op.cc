#include "tf_opt/cc/xla/measure_xla_op.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "tf_opt/cc/xla/measured_operands.h"
#include "tf_opt/cc/xla/op_inputs.h"
#include "tf_opt/cc/xla/registration.h"
#include "tf_opt/cc/xla/slice_arguments.h"
#include "tf_opt/cc/xla/slice_operands.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"

namespace tf_opt {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::TensorShape;

class Kernel : public tensorflow::XlaOpKernel {
 public:
  Kernel(tensorflow::OpKernelConstruction* context, bool sparse)
      : XlaOpKernel(context), sparse_(sparse) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
    OP_REQUIRES_OK(context, AttributesOf(context, &attributes_));
    if (!sparse_) return;
    OP_REQUIRES_OK(context, slice_attributes_.Read(*context));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    CustomCall call(context->builder());
    std::vector<TensorShape> shapes;
    std::vector<int64_t> rows;       // Of each table.
    std::vector<xla::XlaOp> counts;  // Of each dense gradient.
    if (sparse_) {
      OP_REQUIRES_OK(context, ReadTableRows(context, count_, &rows));
      OP_REQUIRES_OK(context, ReadTableShapes(context, rows, &shapes));
    } else {
      OP_REQUIRES_OK(context, AddGradients(context, &call, &counts, &shapes));
    }
    std::vector<xla::XlaOp> accumulators;
    OP_REQUIRES_OK(
        context,
        ReadAccumulators(context, dtype_, shapes,
                         sparse_ ? "variables" : "gradients", &accumulators));
    for (const xla::XlaOp accumulator : accumulators) {
      OP_REQUIRES_OK(context, call.AddArgument(accumulator));
    }
    for (const char* number : {"gradient_scale", "enabled"}) {
      const absl::StatusOr<TensorShape> shape = ShapeOf(context, number);
      OP_REQUIRES_OK(context, shape.status());
      OP_REQUIRES_OK(context, CheckScalarShape(number, *shape));
      OP_REQUIRES_OK(context, call.AddArgument(context->Input(number)));
    }
    if (sparse_) {
      SliceOperands slices;
      OP_REQUIRES_OK(context, slices.Read(context, slice_attributes_, shapes));
      OP_REQUIRES_OK(context, AddSlices(slices, &call));
    } else {
      for (xla::XlaOp& count : counts) count = xla::Reshape(count, {1});
      OP_REQUIRES_OK(context, call.AddArgument(xla::ConcatInDim(
                                  context->builder(), counts, 0)));
    }
    xla::XlaOp sums, finite;
    call.AddResult(
        xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::F64, {count_}),
        &sums);
    call.AddResult(
        xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::PRED, {count_}),
        &finite);
    call.Make(type_string(),
              sparse_ ? absl::StrCat(attributes_, ", rows = ", ArrayOf(rows))
                      : attributes_);
    context->SetOutput(0, sums);
    context->SetOutput(1, finite);
  }

 private:
  // Adds dense gradients, and reads how many elements of them count and their
  // shapes.
  static absl::Status AddGradients(tensorflow::XlaOpKernelContext* context,
                                   CustomCall* call,
                                   std::vector<xla::XlaOp>* counts,
                                   std::vector<TensorShape>* shapes) {
    std::vector<xla::XlaOp> gradients;
    absl::Status status = ReadGradients(context, &gradients, counts, shapes);
    for (const xla::XlaOp gradient : gradients) {
      if (status.ok()) status = call->AddArgument(gradient);
    }
    return status;
  }

  const bool sparse_;
  DataType dtype_ = tensorflow::DT_INVALID;
  int count_ = 0;
  std::string attributes_;
  SliceAttributes slice_attributes_;
};

}  // namespace

bool RegisterMeasureXlaOp(const std::string& name, bool sparse) {
  return RegisterXlaKernel(
      name, kXlaCpuDevice,
      [sparse](tensorflow::OpKernelConstruction* context)
          -> tensorflow::OpKernel* { return new Kernel(context, sparse); });
}

}  // namespace tf_opt
