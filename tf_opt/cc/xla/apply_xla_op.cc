#include "tf_opt/cc/xla/apply_xla_op.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/ops/shape_functions.h"
#include "tf_opt/cc/rules/step_frame.h"
#include "tf_opt/cc/xla/apply_operands.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tf_opt {
namespace {

using ::tensorflow::DataType;

// How many variables one call updates at most: compiling takes longer than in
// proportion to a call's operands.
constexpr int kMostVariables = 32;
// A call that has so many elements has enough to do for all threads.
constexpr int64_t kManyElements = int64_t{1} << 22;

class Kernel : public tensorflow::XlaOpKernel {
 public:
  Kernel(tensorflow::OpKernelConstruction* context, const ApplyXlaOp& op)
      : XlaOpKernel(context), op_(op) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &count_));
    OP_REQUIRES_OK(context, AttributesOf(context, &attributes_));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    ApplyOperands operands;
    OP_REQUIRES_OK(context, operands.Read(context, op_.slots, dtype_, count_));
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
        elements += operands.shapes[end++].num_elements();
      }
      OP_REQUIRES_OK(context,
                     Call(context, first, end, numbers, &operands.arrays));
      first = end;
    }
    OP_REQUIRES_OK(context, operands.Assign(context));
  }

 private:
  // Puts a call for the variables [first, end) into the program: `all` becomes
  // what it returns.
  absl::Status Call(tensorflow::XlaOpKernelContext* context, int first, int end,
                    const std::vector<xla::XlaOp>& numbers,
                    std::vector<OperandArrays>* all) const {
    CustomCall call(context->builder());
    for (OperandArrays& arrays : *all) {
      if (arrays.values.empty()) continue;
      for (int i = first; i < end; ++i) {
        const bool updated = arrays.operand.role == Role::kUpdated;
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
