#include "tf_opt/cc/xla/apply_xla_op.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/statusor.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/ops/shape_functions.h"
#include "tf_opt/cc/rules/step_frame.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "tf_opt/cc/xla/op_inputs.h"
#include "tf_opt/cc/xla/slice_operands.h"

namespace tf_opt {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::TensorShape;
using ::tensorflow::XlaOpKernelContext;

// Upper limit of the variables of one call: compile time grows faster than the
// number of a call's operands.
constexpr int kMostVariables = 32;
// A call with this many elements has enough work for all threads.
constexpr int64_t kManyElements = int64_t{1} << 22;

// The inputs of the op, apart from gradients that are slices: read and checked,
// passed to calls, and assigned after them.
class Operands {
 public:
  Operands(XlaOpKernelContext* context, const ApplyXlaOp& op, DataType dtype,
           int count)
      : context_(*context),
        op_(op),
        dtype_(dtype),
        launch_(op.slots, count),
        values_(launch_.operands().size() * count),
        first_inputs_(launch_.operands().size()) {}

  absl::Status Read() {
    for (int k = 0; k < static_cast<int>(launch_.operands().size()); ++k) {
      if (op_.sparse && launch_.operands()[k].role == Role::kRead) continue;
      TF_RETURN_IF_ERROR(ReadOperand(k));
    }
    TF_RETURN_IF_ERROR(launch_.CheckTypes());
    return ReadNumbers();
  }

  // Shapes of the variables.
  const std::vector<TensorShape>& shapes() const { return shapes_; }

  // Number of rows of the smallest table.
  int64_t table_rows() const {
    return HasTable() ? launch_.SmallestTable() : 0;
  }

  // Adds the arrays of the variables [first, end) to a call, then the numbers
  // and, if gradients are dense, the misfit. The results of the call become the
  // updated values.
  absl::Status AddTo(int first, int end, CustomCall* call) {
    for (int k = 0; k < static_cast<int>(launch_.operands().size()); ++k) {
      const bool updated = launch_.operands()[k].role == Role::kUpdated;
      for (int i = first; launch_.has(k) && i < end; ++i) {
        TF_RETURN_IF_ERROR(updated ? call->AddUpdated(&value(k, i))
                                   : call->AddArgument(value(k, i)));
      }
    }
    for (const xla::XlaOp number : numbers_) {
      TF_RETURN_IF_ERROR(call->AddArgument(number));
    }
    if (op_.sparse) return absl::OkStatus();
    return call->AddArgument(
        misfit_.valid() ? misfit_
                        : xla::ConstantR0<int64_t>(context_.builder(), -1));
  }

  // Assigns the updated values to the variables.
  absl::Status Assign() {
    for (int k = 0; k < static_cast<int>(launch_.operands().size()); ++k) {
      if (launch_.operands()[k].role == Role::kRead) continue;
      for (int i = 0; launch_.has(k) && i < launch_.size(); ++i) {
        TF_RETURN_IF_ERROR(context_.AssignVariable(
            first_inputs_[k] + i, launch_.array(k, i).type, value(k, i)));
      }
    }
    return absl::OkStatus();
  }

 private:
  bool HasTable() const {
    return launch_.has_table() && launch_.has(launch_.table());
  }

  xla::XlaOp& value(int k, int i) { return values_[k * launch_.size() + i]; }

  // Reads all arrays of operand k; an optional one may have none.
  absl::Status ReadOperand(int k) {
    const Operand& operand = launch_.operands()[k];
    TF_ASSIGN_OR_RETURN(const InputList list, ListOf(&context_, operand.name));
    if (operand.optional && list.count == 0) return absl::OkStatus();
    if (list.count != launch_.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`", operand.name, "` must have one variable for each of the ",
          launch_.size(), " `gradients`, got ", list.count));
    }
    first_inputs_[k] = list.begin;
    for (int i = 0; i < list.count; ++i) {
      TensorShape shape;
      DataType type = dtype_;
      if (operand.role == Role::kRead) {
        TF_RETURN_IF_ERROR(ReadGradient(k, i, &shape));
      } else {
        TF_RETURN_IF_ERROR(ReadVariable(k, i, &type, &shape));
      }
      // The variables come first.
      if (static_cast<int>(shapes_.size()) == i) shapes_.push_back(shape);
      const auto check =
          operand.is_row_of_table() ? CheckTableShape : CheckShape;
      TF_RETURN_IF_ERROR(
          check(operand.name, i, shapes_[i], "variables", shape));
      launch_.array(k, i) = {nullptr, type, shape.num_elements(),
                             shape.dims() > 0 ? shape.dim_size(0) : 1};
    }
    return absl::OkStatus();
  }

  absl::Status ReadGradient(int k, int i, TensorShape* shape) {
    xla::XlaOp fits;
    TF_RETURN_IF_ERROR(ReadTensorOfShape(&context_, first_inputs_[k] + i,
                                         shapes_[i], &value(k, i), &fits));
    TF_ASSIGN_OR_RETURN(*shape, ShapeOf(value(k, i)));
    if (!fits.valid()) return absl::OkStatus();
    xla::XlaBuilder* const builder = context_.builder();
    const xla::XlaOp before =
        misfit_.valid() ? misfit_ : xla::ConstantR0<int64_t>(builder, -1);
    misfit_ = xla::Select(fits, before, xla::ConstantR0<int64_t>(builder, i));
    return absl::OkStatus();
  }

  absl::Status ReadVariable(int k, int i, DataType* type, TensorShape* shape) {
    const Operand& operand = launch_.operands()[k];
    const int input = first_inputs_[k] + i;
    const std::string name = absl::StrCat(operand.name, "[", i, "]");
    tensorflow::XlaResource* resource;
    TF_RETURN_IF_ERROR(context_.GetResourceInput(input, &resource));
    const auto [same, is_new] = variables_.emplace(resource, name);
    if (!is_new) return SameVariable(same->second, name);
    TF_RETURN_IF_ERROR(context_.GetVariableTypeAndShape(input, type, shape));
    TF_RETURN_IF_ERROR(
        CheckType(operand.name, i, TypesOf(operand, dtype_), *type));
    return context_.ReadVariableInput(input, *type, shape, &value(k, i));
  }

  absl::Status ReadNumbers() {
    for (const std::string& scalar : op_.scalars) {
      TF_RETURN_IF_ERROR(ReadScalar(scalar));
    }
    if (HasTable()) {
      TF_RETURN_IF_ERROR(
          ReadScalar(launch_.operands()[launch_.table()].row_input));
    }
    for (const char* vector : kPerVariableInputs) {
      numbers_.push_back(context_.Input(vector));
      TF_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOf(&context_, vector));
      TF_RETURN_IF_ERROR(CheckPerVariableShape(vector, launch_.size(), shape));
    }
    for (const auto& scalar : kFrameScalars) {
      TF_RETURN_IF_ERROR(ReadScalar(scalar.name));
    }
    return ReadScalar("seed");
  }

  absl::Status ReadScalar(const std::string& name) {
    numbers_.push_back(context_.Input(name));
    TF_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOf(&context_, name));
    return CheckScalarShape(name, shape);
  }

  XlaOpKernelContext& context_;
  const ApplyXlaOp& op_;
  const DataType dtype_;
  ApplyLaunch launch_;
  std::vector<xla::XlaOp> values_;
  std::vector<int> first_inputs_;  // For each operand.
  std::vector<TensorShape> shapes_;
  std::map<const void*, std::string> variables_;
  std::vector<xla::XlaOp> numbers_;
  // The index of a gradient whose size differs from its variable's, or -1;
  // not valid if XLA knows all sizes.
  xla::XlaOp misfit_;
};

class Kernel : public tensorflow::XlaOpKernel {
 public:
  Kernel(tensorflow::OpKernelConstruction* context, const ApplyXlaOp& op)
      : XlaOpKernel(context),
        op_(op),
        attributes_(AttributesOf(context->def())) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
    if (!op_.sparse) return;
    OP_REQUIRES_OK(context, slice_attributes_.Read(context->def()));
  }

  void Compile(XlaOpKernelContext* context) override {
    Operands operands(context, op_, dtype_, count_);
    OP_REQUIRES_OK(context, operands.Read());
    // A wrong row must stop the updates of all tables: one call.
    for (int first = 0, end = count_; first < count_; first = end) {
      if (!op_.sparse) end = EndOfCall(operands, first);
      OP_REQUIRES_OK(context, Call(context, first, end, &operands));
    }
    OP_REQUIRES_OK(context, operands.Assign());
  }

 private:
  int EndOfCall(const Operands& operands, int first) const {
    int end = first;
    int64_t elements = 0;
    while (end < count_ && end - first < kMostVariables &&
           elements < kManyElements) {
      elements += operands.shapes()[end++].num_elements();
    }
    return end;
  }

  // Puts a call for the variables [first, end) into the program.
  absl::Status Call(XlaOpKernelContext* context, int first, int end,
                    Operands* operands) const {
    CustomCall call(context->builder());
    TF_RETURN_IF_ERROR(operands->AddTo(first, end, &call));
    if (op_.sparse) {
      TF_RETURN_IF_ERROR(
          AddSlices(context, slice_attributes_, operands->shapes(), &call));
    }
    tensorflow::NodeDef attributes = attributes_;
    AddNodeAttr("count", end - first, &attributes);
    AddNodeAttr("first", first, &attributes);
    AddNodeAttr("table_rows", operands->table_rows(), &attributes);
    call.Make(op_.name, attributes);
    return absl::OkStatus();
  }

  const ApplyXlaOp op_;
  const tensorflow::NodeDef attributes_;
  DataType dtype_ = tensorflow::DT_INVALID;
  int count_ = 0;
  SliceAttributes slice_attributes_;
};

}  // namespace

bool RegisterApplyXlaOp(const ApplyXlaOp& op) {
  return RegisterXlaKernel(
      op.name,
      [op](tensorflow::OpKernelConstruction* context) -> tensorflow::OpKernel* {
        return new Kernel(context, op);
      });
}

}  // namespace tf_opt
