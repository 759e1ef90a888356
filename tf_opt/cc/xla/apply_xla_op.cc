#include "tf_opt/cc/xla/apply_xla_op.h"

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/ops/operand_checks.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/ops/shape_functions.h"
#include "tf_opt/cc/rules/step_frame.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::TensorShape;

// How many variables one call updates at most: compiling takes longer than in
// proportion to a call's operands.
constexpr int kMostVariables = 32;
// A call that has so many elements has enough to do for all threads.
constexpr int64_t kManyElements = int64_t{1} << 22;

// The arrays of an operand.
struct Arrays {
  const Operand* operand;
  int input;  // The first one's number among the op's inputs.
  std::vector<xla::XlaOp> values;
  std::vector<DataType> types;
};

class Kernel : public tensorflow::XlaOpKernel {
 public:
  Kernel(tensorflow::OpKernelConstruction* context, const ApplyXlaOp& op)
      : XlaOpKernel(context), op_(op) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
    OP_REQUIRES_OK(context, AttributesOf(context, &attributes_));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    std::vector<Operand> operands(std::begin(kFrameOperands),
                                  std::end(kFrameOperands));
    operands.insert(operands.end(), op_.slots.begin(), op_.slots.end());
    std::vector<Arrays> all;
    std::vector<TensorShape> shapes;
    std::map<const void*, std::string> variables;
    for (const Operand& operand : operands) {
      Arrays arrays;
      OP_REQUIRES_OK(context,
                     Read(context, operand, &shapes, &variables, &arrays));
      if (!arrays.values.empty()) all.push_back(std::move(arrays));
    }
    std::vector<xla::XlaOp> numbers;
    for (const std::string& scalar : op_.scalars) {
      numbers.push_back(context->Input(scalar));
    }
    for (const Operand& slot : op_.slots) {
      if (slot.is_row_of_table()) {
        numbers.push_back(context->Input(slot.row_input));
      }
    }
    for (const char* vector : kPerVariableInputs) {
      numbers.push_back(context->Input(vector));
    }
    for (const auto& scalar : kFrameScalars) {
      numbers.push_back(context->Input(scalar.name));
    }
    for (int first = 0; first < count_;) {
      int end = first;
      int64_t elements = 0;
      while (end < count_ && end - first < kMostVariables &&
             elements < kManyElements) {
        elements += shapes[end++].num_elements();
      }
      OP_REQUIRES_OK(context, Call(context, first, end, numbers, &all));
      first = end;
    }
    for (const Arrays& arrays : all) {
      if (arrays.operand->role == Role::kRead) continue;
      for (int i = 0; i < count_; ++i) {
        OP_REQUIRES_OK(
            context, context->AssignVariable(arrays.input + i, arrays.types[i],
                                             arrays.values[i]));
      }
    }
  }

 private:
  // Reads and checks the arrays of an operand, of which there may be none.
  // `shapes` are those of the variables, which are read first.
  absl::Status Read(tensorflow::XlaOpKernelContext* context,
                    const Operand& operand, std::vector<TensorShape>* shapes,
                    std::map<const void*, std::string>* variables,
                    Arrays* arrays) const {
    int begin, end;
    absl::Status status = InputRange(operand.name, &begin, &end);
    if (!status.ok()) return status;
    if (operand.optional && begin == end) return absl::OkStatus();
    if (end - begin != count_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "`", operand.name, "` must have one variable for each of the ",
          count_, " `gradients`, got ", end - begin));
    }
    const TypeList types = TypesOf(operand, dtype_);
    arrays->operand = &operand;
    arrays->input = begin;
    for (int i = 0; i < count_; ++i) {
      TensorShape shape;
      DataType type = dtype_;
      xla::XlaOp value;
      if (operand.role == Role::kRead) {
        const absl::StatusOr<TensorShape> found = ShapeOf(context, begin + i);
        if (!found.ok()) return found.status();
        shape = *found;
        value = context->Input(begin + i);
      } else {
        tensorflow::XlaResource* resource;
        status = context->GetResourceInput(begin + i, &resource);
        if (!status.ok()) return status;
        const auto [same, is_new] = variables->emplace(
            resource, absl::StrCat("`", operand.name, "[", i, "]`"));
        if (!is_new) {
          return absl::InvalidArgumentError(
              absl::StrCat(same->second, " and `", operand.name, "[", i,
                           "]` are the same variable; each must occur once"));
        }
        status = context->GetVariableTypeAndShape(begin + i, &type, &shape);
        if (!status.ok()) return status;
        status = CheckType(operand.name, i, types, type);
        if (!status.ok()) return status;
        status = context->ReadVariableInput(begin + i, type, &shape, &value);
        if (!status.ok()) return status;
      }
      if (static_cast<int>(shapes->size()) == i) shapes->push_back(shape);
      const auto check =
          operand.is_row_of_table() ? CheckTableShape : CheckShape;
      status = check(operand.name, i, (*shapes)[i], "variables", shape);
      if (!status.ok()) return status;
      arrays->types.push_back(type);
      arrays->values.push_back(value);
    }
    return absl::OkStatus();
  }

  // Puts a call for the variables [first, end) into the program: `all` becomes
  // what it returns.
  absl::Status Call(tensorflow::XlaOpKernelContext* context, int first, int end,
                    const std::vector<xla::XlaOp>& numbers,
                    std::vector<Arrays>* all) const {
    CustomCall call(context->builder());
    for (Arrays& arrays : *all) {
      for (int i = first; i < end; ++i) {
        const bool updated = arrays.operand->role == Role::kUpdated;
        absl::Status status = updated ? call.AddUpdated(&arrays.values[i])
                                      : call.AddArgument(arrays.values[i]);
        if (!status.ok()) return status;
      }
    }
    for (const xla::XlaOp number : numbers) {
      absl::Status status = call.AddArgument(number);
      if (!status.ok()) return status;
    }
    call.Make(op_.name,
              absl::StrCat("count = ", end - first, " : i64, first = ", first,
                           " : i64, ", attributes_));
    return absl::OkStatus();
  }

  const ApplyXlaOp op_;
  DataType dtype_ = tensorflow::DT_INVALID;
  int count_ = 0;
  std::string attributes_;
};

class Factory : public tensorflow::kernel_factory::OpKernelFactory {
 public:
  explicit Factory(const ApplyXlaOp& op) : op_(op) {}
  tensorflow::OpKernel* Create(
      tensorflow::OpKernelConstruction* context) override {
    return new Kernel(context, op_);
  }

 private:
  const ApplyXlaOp op_;
};

}  // namespace

// Not by the macro that registers for XLA: kernels of a library that is loaded
// after the process's first compilation would not be seen.
bool RegisterApplyXlaOp(const ApplyXlaOp& op) {
  for (const DataType type : kElementTypes) {
    tensorflow::kernel_factory::OpKernelRegistrar(
        tensorflow::KernelDefBuilder(op.name.c_str())
            .Device(kXlaCpuDevice)
            .TypeConstraint("T", type)
            .Build(),
        op.name, std::make_unique<Factory>(op));
  }
  return true;
}

}  // namespace tf_opt
