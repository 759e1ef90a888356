#include "tf_opt/cc/xla/apply_xla_op.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/xla/apply_operands.h"
#include "tf_opt/cc/xla/custom_call.h"
#include "tf_opt/cc/xla/registration.h"
#include "tf_opt/cc/xla/slice_arguments.h"
#include "tf_opt/cc/xla/slice_operands.h"

namespace tf_opt {
namespace {

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
    if (op_.sparse) OP_REQUIRES_OK(context, slice_attributes_.Read(*context));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    ApplyOperands operands(op_, dtype_, count_);
    OP_REQUIRES_OK(context, operands.Read(context));
    // A row that isn't there must stop the updates of all tables: one call.
    for (int first = 0, end = count_; first < count_; first = end) {
      if (!op_.sparse) end = EndOfCall(operands, first);
      OP_REQUIRES_OK(context, Call(context, first, end, &operands));
    }
    OP_REQUIRES_OK(context, operands.Assign(context));
  }

 private:
  int EndOfCall(const ApplyOperands& operands, int first) const {
    int end = first;
    int64_t elements = 0;
    while (end < count_ && end - first < kMostVariables &&
           elements < kManyElements) {
      elements += operands.shapes()[end++].num_elements();
    }
    return end;
  }

  // Puts a call for the variables [first, end) into the program.
  absl::Status Call(tensorflow::XlaOpKernelContext* context, int first, int end,
                    ApplyOperands* operands) const {
    CustomCall call(context->builder());
    TF_RETURN_IF_ERROR(operands->AddTo(&call, first, end));
    if (op_.sparse) {
      SliceOperands slices;
      TF_RETURN_IF_ERROR(
          slices.Read(context, slice_attributes_, operands->shapes()));
      TF_RETURN_IF_ERROR(AddSlices(slices, &call));
    }
    call.Make(op_.name,
              absl::StrCat("count = ", end - first, " : i64, first = ", first,
                           " : i64, table_rows = ", operands->table_rows(),
                           " : i64, ", attributes_));
    return absl::OkStatus();
  }

  const ApplyXlaOp op_;
  tensorflow::DataType dtype_ = tensorflow::DT_INVALID;
  int count_ = 0;
  std::string attributes_;
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
