// The kernel of a resource-apply op for what XLA compiles for CPUs. It writes
// calls that update in place; apply_call.cc runs them.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/statusor.h"
#include "tf_opt/cc/kernels/apply_attributes.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/optimizers.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/xla/apply_call.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "tf_opt/cc/xla/ffi_call.h"
#include "tf_opt/cc/xla/op_inputs.h"

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
  Operands(XlaOpKernelContext* context, const std::vector<Operand>& slots,
           bool sparse, DataType dtype, int count)
      : context_(*context),
        sparse_(sparse),
        dtype_(dtype),
        launch_(slots, count),
        values_(launch_.operands().size() * count),
        first_inputs_(launch_.operands().size()) {}

  absl::Status Read() {
    for (int k = 0; k < static_cast<int>(launch_.operands().size()); ++k) {
      if (sparse_ && launch_.operands()[k].role == Role::kRead) continue;
      TF_RETURN_IF_ERROR(ReadOperand(k));
    }
    TF_RETURN_IF_ERROR(launch_.CheckTypes());
    return ReadNumbers();
  }

  // Shapes of the variables.
  const std::vector<TensorShape>& shapes() const { return shapes_; }

  // Number of rows of the smallest table.
  int64_t table_rows() const {
    return launch_.has_table() ? launch_.SmallestTable() : 0;
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
    if (sparse_) return absl::OkStatus();
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
  xla::XlaOp& value(int k, int i) { return values_[k * launch_.size() + i]; }

  // Reads all arrays of operand k.
  absl::Status ReadOperand(int k) {
    const Operand& operand = launch_.operands()[k];
    TF_ASSIGN_OR_RETURN(const InputList list, ListOf(&context_, operand.name));
    TF_RETURN_IF_ERROR(CheckLength(operand.name, "variable", operand.optional,
                                   launch_.size(), list.count));
    first_inputs_[k] = list.begin;
    for (int i = 0; i < list.count; ++i) {
      TensorShape shape;
      DataType type = dtype_;
      TF_RETURN_IF_ERROR(operand.role == Role::kRead
                             ? ReadGradient(k, i, &shape)
                             : ReadVariable(k, i, &type, &shape));
      // The variables come first.
      if (static_cast<int>(shapes_.size()) == i) shapes_.push_back(shape);
      TF_RETURN_IF_ERROR(CheckOperand(operand, i, dtype_, type, shapes_[i],
                                      "variables", shape));
      launch_.array(k, i) = MakeArray(nullptr, type, shape.dim_sizes());
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
    const int input = first_inputs_[k] + i;
    const std::string name =
        absl::StrCat(launch_.operands()[k].name, "[", i, "]");
    tensorflow::XlaResource* resource;
    TF_RETURN_IF_ERROR(context_.GetResourceInput(input, &resource));
    const auto [same, is_new] = variables_.emplace(resource, name);
    if (!is_new) return SameVariable(same->second, name);
    TF_RETURN_IF_ERROR(context_.GetVariableTypeAndShape(input, type, shape));
    return context_.ReadVariableInput(input, *type, shape, &value(k, i));
  }

  // Reads all inputs that are no lists.
  absl::Status ReadNumbers() {
    const tensorflow::OpDef* op;
    TF_RETURN_IF_ERROR(tensorflow::OpRegistry::Global()->LookUpOpDef(
        context_.op_kernel_context()->op_kernel().type_string(), &op));
    for (const auto& input : op->input_arg()) {
      if (!input.number_attr().empty()) continue;
      TF_ASSIGN_OR_RETURN(const TensorShape shape,
                          ShapeOf(&context_, input.name()));
      TF_RETURN_IF_ERROR(
          absl::c_linear_search(kPerVariableInputs, input.name())
              ? CheckPerVariableShape(input.name(), launch_.size(), shape)
              : CheckScalarShape(input.name(), shape));
      numbers_.push_back(context_.Input(input.name()));
    }
    return absl::OkStatus();
  }

  XlaOpKernelContext& context_;
  const bool sparse_;
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

class ApplyXlaOp : public tensorflow::XlaOpKernel {
 public:
  explicit ApplyXlaOp(tensorflow::OpKernelConstruction* context)
      : XlaOpKernel(context), node_(AttributesOf(context->def())) {
    OP_REQUIRES_OK(context, attributes_.Read(context->def()));
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
  }

  void Compile(XlaOpKernelContext* context) override {
    const bool sparse = attributes_.slices.sparse();
    Operands operands(context, attributes_.slots, sparse, dtype_, count_);
    OP_REQUIRES_OK(context, operands.Read());
    // A wrong row must stop the updates of all tables: one call.
    for (int first = 0, end = count_; first < count_; first = end) {
      if (!sparse) end = EndOfCall(operands, first);
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
    if (attributes_.slices.sparse()) {
      TF_RETURN_IF_ERROR(
          AddSlices(context, attributes_.slices, operands->shapes(), &call));
    }
    tensorflow::NodeDef node = node_;
    AddNodeAttr("count", end - first, &node);
    AddNodeAttr("first", first, &node);
    AddNodeAttr("table_rows", operands->table_rows(), &node);
    call.Make(type_string(), node);
    return absl::OkStatus();
  }

  const tensorflow::NodeDef node_;
  ApplyAttributes attributes_;
  DataType dtype_ = tensorflow::DT_INVALID;
  int count_ = 0;
};

[[maybe_unused]] const bool apply_registered = [] {
  for (const Optimizer& optimizer : AllOptimizers()) {
    for (const bool sparse : {false, true}) {
      const std::string op = OpName(optimizer.rule.op, sparse);
      if (!RegisterFfiFunction<ApplyCall>(op)) continue;
      RegisterKernel<ApplyXlaOp>(op, kXlaDevice, {});
    }
  }
  return true;
}();

}  // namespace
}  // namespace tf_opt
