// TfOpt>MeasureGradients and TfOpt>MeasureSparseGradients inside XLA: kernels
// that write a call into the program, and the function that is called.
//
// Arguments: dense gradients, accumulators if there are any, gradient_scale,
// enabled; then an int64 vector with the number of elements of each dense
// gradient that count, or for sparse ones the slices (FfiCall::FindSlices).
// Results: sums_of_squares and finite. Attributes: the op's, and
//
//   rows  number of rows of each table, for sparse gradients
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/statusor.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/measure.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "tf_opt/cc/xla/ffi_call.h"
#include "tf_opt/cc/xla/op_inputs.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"

namespace tf_opt {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::TensorShape;
using ::tensorflow::XlaOpKernelContext;

class MeasureXlaOp : public tensorflow::XlaOpKernel {
 public:
  explicit MeasureXlaOp(tensorflow::OpKernelConstruction* context)
      : XlaOpKernel(context), attributes_(AttributesOf(context->def())) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(context, slice_attributes_.Read(context->def()));
  }

  void Compile(XlaOpKernelContext* context) override {
    OP_REQUIRES_OK(context, WriteCall(context));
  }

 private:
  absl::Status WriteCall(XlaOpKernelContext* context) const {
    TF_ASSIGN_OR_RETURN(const InputList gradients,
                        ListOf(context, "gradients"));
    const bool sparse = slice_attributes_.sparse();
    CustomCall call(context->builder());
    std::vector<TensorShape> shapes;  // Of the gradients' variables.
    std::vector<int64_t> rows;        // One per table.
    std::vector<xla::XlaOp> counts;   // One per dense gradient.
    if (sparse) {
      TF_RETURN_IF_ERROR(context->ConstantInputAsIntVector("rows", &rows));
      TF_RETURN_IF_ERROR(CheckTableRows(gradients.count, rows));
      for (int i = 0; i < gradients.count; ++i) {
        TF_ASSIGN_OR_RETURN(const TensorShape values,
                            ShapeOf(context, gradients.begin + i));
        TF_ASSIGN_OR_RETURN(const TensorShape table,
                            TableShape(rows[i], values));
        shapes.push_back(table);
      }
    } else {
      for (int i = 0; i < gradients.count; ++i) {
        xla::XlaOp gradient, count;
        TF_RETURN_IF_ERROR(ReadGradient(context, i, &gradient, &count));
        TF_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOf(gradient));
        shapes.push_back(shape);
        counts.push_back(xla::Reshape(count, {1}));
        TF_RETURN_IF_ERROR(call.AddArgument(gradient));
      }
    }
    TF_RETURN_IF_ERROR(AddAccumulators(context, shapes, &call));
    for (const char* number : {"gradient_scale", "enabled"}) {
      TF_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOf(context, number));
      TF_RETURN_IF_ERROR(CheckScalarShape(number, shape));
      TF_RETURN_IF_ERROR(call.AddArgument(context->Input(number)));
    }
    TF_RETURN_IF_ERROR(
        sparse ? AddSlices(context, slice_attributes_, shapes, &call)
               : call.AddArgument(
                     xla::ConcatInDim(context->builder(), counts, 0)));
    xla::XlaOp sums, finite;
    const auto shape_of = [&](xla::PrimitiveType type) {
      return xla::ShapeUtil::MakeShapeWithDescendingLayout(type,
                                                           {gradients.count});
    };
    call.AddResult(shape_of(xla::F64), &sums);
    call.AddResult(shape_of(xla::PRED), &finite);
    tensorflow::NodeDef attributes = attributes_;
    AddNodeAttr("rows", rows, &attributes);
    call.Make(type_string(), attributes);
    context->SetOutput(0, sums);
    context->SetOutput(1, finite);
    return absl::OkStatus();
  }

  // Reads the i-th dense gradient and the number of its elements that count. If
  // XLA doesn't know its shape, the accumulator's is used; the op that applies
  // the gradient refuses one that doesn't fit.
  absl::Status ReadGradient(XlaOpKernelContext* context, int i,
                            xla::XlaOp* gradient, xla::XlaOp* count) const {
    TF_ASSIGN_OR_RETURN(const InputList list, ListOf(context, "gradients"));
    TF_ASSIGN_OR_RETURN(const InputList accumulators,
                        ListOf(context, "accumulators"));
    if (accumulators.count != list.count) {
      return ReadTensor(context, list.begin + i, gradient, count);
    }
    DataType unused;
    TensorShape expected;
    TF_RETURN_IF_ERROR(context->GetVariableTypeAndShape(accumulators.begin + i,
                                                        &unused, &expected));
    xla::XlaOp fits;
    *count =
        xla::ConstantR0<int64_t>(context->builder(), expected.num_elements());
    return ReadTensorOfShape(context, list.begin + i, expected, gradient,
                             &fits);
  }

  absl::Status AddAccumulators(XlaOpKernelContext* context,
                               const std::vector<TensorShape>& shapes,
                               CustomCall* call) const {
    TF_ASSIGN_OR_RETURN(const InputList list, ListOf(context, "accumulators"));
    TF_RETURN_IF_ERROR(CheckLength("accumulators", "variable",
                                   /*optional=*/true, shapes.size(),
                                   list.count));
    std::map<const void*, int> variables;
    for (int i = 0; i < list.count; ++i) {
      tensorflow::XlaResource* resource;
      TF_RETURN_IF_ERROR(context->GetResourceInput(list.begin + i, &resource));
      const auto [same, is_new] = variables.emplace(resource, i);
      if (!is_new) {
        return SameVariable(absl::StrCat("accumulators[", same->second, "]"),
                            absl::StrCat("accumulators[", i, "]"));
      }
      TensorShape shape;
      xla::XlaOp value;
      const DataType type = ArithmeticType(dtype_);
      TF_RETURN_IF_ERROR(
          context->ReadVariableInput(list.begin + i, type, &shape, &value));
      TF_RETURN_IF_ERROR(CheckOperand(kFrameOperands[kAccumulator], i, dtype_,
                                      type, shapes[i], "gradients", shape));
      TF_RETURN_IF_ERROR(call->AddArgument(value));
    }
    return absl::OkStatus();
  }

  const tensorflow::NodeDef attributes_;
  DataType dtype_ = tensorflow::DT_INVALID;
  SliceAttributes slice_attributes_;
};

absl::Status MeasureCall(FfiCall* call) {
  SliceAttributes attributes;
  TF_RETURN_IF_ERROR(attributes.Read(call->attributes()));
  MeasureLaunch launch;
  int count = 0, accumulators = 0;
  TF_RETURN_IF_ERROR(GetNodeAttr(call->attributes(), "N", &count));
  TF_RETURN_IF_ERROR(
      GetNodeAttr(call->attributes(), "num_accumulators", &accumulators));
  TF_RETURN_IF_ERROR(GetNodeAttr(call->attributes(), "T", &launch.type));
  TF_RETURN_IF_ERROR(GetNodeAttr(call->attributes(), "rows", &launch.rows));
  launch.gradients.resize(attributes.sparse() ? 0 : count);
  launch.accumulators.resize(accumulators > 0 ? count : 0);
  for (auto* list : {&launch.gradients, &launch.accumulators}) {
    for (LaunchArray& array : *list) TF_RETURN_IF_ERROR(call->Next(&array));
  }
  const void *scale, *enabled, *counts;
  TF_RETURN_IF_ERROR(call->Scalar("gradient_scale", &scale));
  TF_RETURN_IF_ERROR(call->Scalar("enabled", &enabled));
  launch.gradient_scale = static_cast<const double*>(scale);
  launch.enabled = static_cast<const bool*>(enabled);
  if (attributes.sparse()) {
    TF_RETURN_IF_ERROR(call->FindSlices(attributes, count, &launch.slices));
  } else {
    TF_RETURN_IF_ERROR(call->Scalar("counts", &counts));
    for (int i = 0; i < count; ++i) {
      launch.gradients[i].rows = static_cast<const int64_t*>(counts)[i];
      launch.gradients[i].width = 1;
    }
  }
  LaunchArray sums, finite;
  TF_RETURN_IF_ERROR(call->NextResult(&sums));
  TF_RETURN_IF_ERROR(call->NextResult(&finite));
  TF_RETURN_IF_ERROR(call->CheckAllRead());
  launch.sums_of_squares = static_cast<double*>(sums.data);
  launch.finite = static_cast<bool*>(finite.data);
  return MeasureOnCpu(launch, attributes, call->threads());
}

[[maybe_unused]] const bool registered = [] {
  for (const char* op :
       {"TfOpt>MeasureGradients", "TfOpt>MeasureSparseGradients"}) {
    if (!RegisterFfiFunction<MeasureCall>(op)) continue;
    RegisterKernel<MeasureXlaOp>(op, kXlaDevice, {});
  }
  return true;
}();

}  // namespace
}  // namespace tf_opt
