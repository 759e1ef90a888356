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
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/statusor.h"
#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/measure_cpu.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/scratch.h"
#include "tf_opt/cc/kernels/slices_on_cpu.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "tf_opt/cc/xla/ffi_call.h"
#include "tf_opt/cc/xla/op_inputs.h"
#include "tf_opt/cc/xla/slice_operands.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"

namespace tf_opt {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::TensorShape;
using ::tensorflow::XlaOpKernelContext;

// Reads dense gradients, the number of elements of each that count, and their
// shapes. If XLA doesn't know a shape, the accumulator's is used; the op that
// applies the gradient refuses one that doesn't fit.
absl::Status ReadGradients(XlaOpKernelContext* context,
                           std::vector<xla::XlaOp>* gradients,
                           std::vector<xla::XlaOp>* counts,
                           std::vector<TensorShape>* shapes) {
  TF_ASSIGN_OR_RETURN(const InputList list, ListOf(context, "gradients"));
  TF_ASSIGN_OR_RETURN(const InputList accumulators,
                      ListOf(context, "accumulators"));
  for (int i = 0; i < list.count; ++i) {
    xla::XlaOp gradient, gradient_count;
    if (accumulators.count == list.count) {
      DataType type;
      TensorShape expected;
      TF_RETURN_IF_ERROR(context->GetVariableTypeAndShape(
          accumulators.begin + i, &type, &expected));
      xla::XlaOp fits;
      TF_RETURN_IF_ERROR(ReadTensorOfShape(context, list.begin + i, expected,
                                           &gradient, &fits));
      gradient_count =
          xla::ConstantR0<int64_t>(context->builder(), expected.num_elements());
    } else {
      TF_RETURN_IF_ERROR(
          ReadTensor(context, list.begin + i, &gradient, &gradient_count));
    }
    TF_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOf(gradient));
    gradients->push_back(gradient);
    counts->push_back(gradient_count);
    shapes->push_back(shape);
  }
  return absl::OkStatus();
}

// Reads the number of rows of each table.
absl::Status ReadTableRows(XlaOpKernelContext* context, int count,
                           std::vector<int64_t>* rows) {
  TF_RETURN_IF_ERROR(context->ConstantInputAsIntVector("rows", rows));
  return CheckTableRows(count, *rows);
}

// Reads the shapes of tables with so many rows.
absl::Status ReadTableShapes(XlaOpKernelContext* context,
                             const std::vector<int64_t>& rows,
                             std::vector<TensorShape>* shapes) {
  TF_ASSIGN_OR_RETURN(const InputList list, ListOf(context, "gradients"));
  for (int i = 0; i < list.count; ++i) {
    absl::StatusOr<TensorShape> shape = ShapeOf(context, list.begin + i);
    if (shape.ok()) shape = TableShape(rows[i], *shape);
    if (!shape.ok()) return shape.status();
    shapes->push_back(*shape);
  }
  return absl::OkStatus();
}

// Reads the accumulators, if there are any. `shapes` are those of the
// gradients' variables, and errors call these `whose`.
absl::Status ReadAccumulators(XlaOpKernelContext* context, DataType dtype,
                              const std::vector<TensorShape>& shapes,
                              const std::string& whose,
                              std::vector<xla::XlaOp>* accumulators) {
  TF_ASSIGN_OR_RETURN(const InputList list, ListOf(context, "accumulators"));
  const int count = static_cast<int>(shapes.size());
  if (list.count != 0 && list.count != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`accumulators` must be empty or have one variable for each of the ",
        count, " `gradients`, got ", list.count));
  }
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
    TF_RETURN_IF_ERROR(context->ReadVariableInput(
        list.begin + i, ArithmeticType(dtype), &shape, &value));
    TF_RETURN_IF_ERROR(CheckShape("accumulators", i, shapes[i], whose, shape));
    accumulators->push_back(value);
  }
  return absl::OkStatus();
}

class Kernel : public tensorflow::XlaOpKernel {
 public:
  Kernel(tensorflow::OpKernelConstruction* context, bool sparse)
      : XlaOpKernel(context),
        sparse_(sparse),
        attributes_(AttributesOf(context->def())) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
    if (!sparse_) return;
    OP_REQUIRES_OK(context, slice_attributes_.Read(context->def()));
  }

  void Compile(XlaOpKernelContext* context) override {
    CustomCall call(context->builder());
    std::vector<TensorShape> shapes;
    std::vector<int64_t> rows;       // One per table.
    std::vector<xla::XlaOp> counts;  // One per dense gradient.
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
      OP_REQUIRES_OK(context,
                     AddSlices(context, slice_attributes_, shapes, &call));
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
    tensorflow::NodeDef attributes = attributes_;
    AddNodeAttr("rows", rows, &attributes);
    call.Make(type_string(), attributes);
    context->SetOutput(0, sums);
    context->SetOutput(1, finite);
  }

 private:
  // Adds dense gradients.
  static absl::Status AddGradients(XlaOpKernelContext* context,
                                   CustomCall* call,
                                   std::vector<xla::XlaOp>* counts,
                                   std::vector<TensorShape>* shapes) {
    std::vector<xla::XlaOp> gradients;
    TF_RETURN_IF_ERROR(ReadGradients(context, &gradients, counts, shapes));
    for (const xla::XlaOp gradient : gradients) {
      TF_RETURN_IF_ERROR(call->AddArgument(gradient));
    }
    return absl::OkStatus();
  }

  const bool sparse_;
  const tensorflow::NodeDef attributes_;
  DataType dtype_ = tensorflow::DT_INVALID;
  int count_ = 0;
  SliceAttributes slice_attributes_;
};

template <bool kSparse>
absl::Status MeasureCall(FfiCall* call) {
  int count = 0, accumulators = 0;
  TF_RETURN_IF_ERROR(GetNodeAttr(call->attributes(), "N", &count));
  TF_RETURN_IF_ERROR(
      GetNodeAttr(call->attributes(), "num_accumulators", &accumulators));
  std::vector<FfiArray> dense(kSparse ? 0 : count);
  std::vector<FfiArray> accumulated(accumulators > 0 ? count : 0);
  for (std::vector<FfiArray>* list : {&dense, &accumulated}) {
    for (FfiArray& array : *list) TF_RETURN_IF_ERROR(call->Next(&array));
  }
  FfiArray scale, enabled, counts, sums, finite;
  TF_RETURN_IF_ERROR(call->Next(&scale));
  TF_RETURN_IF_ERROR(call->Next(&enabled));
  SliceAttributes attributes;
  std::vector<RowSlices> slices;
  std::vector<int64_t> rows;
  DataType type = tensorflow::DT_INVALID;
  TF_RETURN_IF_ERROR(GetNodeAttr(call->attributes(), "T", &type));
  if constexpr (kSparse) {
    TF_RETURN_IF_ERROR(attributes.Read(call->attributes()));
    TF_RETURN_IF_ERROR(GetNodeAttr(call->attributes(), "rows", &rows));
    TF_RETURN_IF_ERROR(call->FindSlices(attributes, count, &slices));
  } else {
    TF_RETURN_IF_ERROR(call->Next(&counts));
  }
  TF_RETURN_IF_ERROR(call->NextResult(&sums));
  TF_RETURN_IF_ERROR(call->NextResult(&finite));
  TF_RETURN_IF_ERROR(call->CheckAllRead());
  std::vector<Measure> measures(count, {0, true});
  absl::Status status;
  const auto measure = [&](auto zero) {
    using Element = typename StorageTypeOf<decltype(zero)>::type;
    const double factor = *static_cast<const double*>(scale.data);
    const auto accumulator = [&](int i) {
      return accumulated.empty() ? nullptr
                                 : static_cast<const ComputeType<Element>*>(
                                       accumulated[i].data);
    };
    if constexpr (kSparse) {
      HeapScratch scratch;
      status = MeasureSlices<Element>(
          slices, attributes, rows, accumulator, factor, call->num_threads(),
          call->parallel_for(), &scratch, &measures);
    } else {
      std::vector<MeasuredTensor<Element>> tensors(count);
      for (int i = 0; i < count; ++i) {
        tensors[i].gradient = static_cast<const Element*>(dense[i].data);
        tensors[i].accumulator = accumulator(i);
        tensors[i].size = static_cast<const int64_t*>(counts.data)[i];
      }
      // As outside of XLA.
      const tensorflow::port::ScopedFlushDenormal flush_denormals;
      measures =
          MeasureGradients<Element>(tensors, factor, ChosenCpuTarget(),
                                    call->num_threads(), call->parallel_for());
    }
  };
  if (*static_cast<const bool*>(enabled.data) &&
      !WithElementType(type, measure)) {
    return OtherArguments();
  }
  TF_RETURN_IF_ERROR(status);
  for (int i = 0; i < count; ++i) {
    static_cast<double*>(sums.data)[i] = measures[i].sum_of_squares;
    static_cast<bool*>(finite.data)[i] = measures[i].finite;
  }
  return absl::OkStatus();
}

template <bool kSparse>
bool Register(const std::string& name) {
  return RegisterFfiFunction<MeasureCall<kSparse>>(name) &&
         RegisterXlaKernel(name,
                           [](tensorflow::OpKernelConstruction* context)
                               -> tensorflow::OpKernel* {
                             return new Kernel(context, kSparse);
                           });
}

[[maybe_unused]] const bool registered =
    Register<false>("TfOpt>MeasureGradients") &&
    Register<true>("TfOpt>MeasureSparseGradients");

}  // namespace
}  // namespace tf_opt
