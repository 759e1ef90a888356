// apply_xla_op.cc writes the calls.
//
// Arguments: for each operand that is present, in the order of kFrameOperands
// and then the rule's slots, the arrays of `count` variables; then the op's
// numbers, in the order of its inputs; last the number of a gradient that
// doesn't fit its variable, or -1. An op for sparse gradients has no dense
// gradients, and slices in place of that number (FfiCall::FindSlices).
// Results: all updated arrays, in the same order. The node (FfiCall::node) has
// the op's name and attributes, and
//
//   count       number of variables that this call updates
//   first       index of the first of them among the op's variables
//   table_rows  number of rows that all tables of the op's variables have
//
// An op may become several calls. Each makes all checks of the op, with the
// same numbers: either all calls refuse a step or none does.
#include "tf_opt/cc/xla/apply_call.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/apply_attributes.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/apply_on_cpu.h"
#include "tf_opt/cc/kernels/numbers.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/xla/ffi_call.h"

namespace tf_opt {
namespace {

// Finds the arrays that are no slices.
absl::Status FindArrays(bool sparse, FfiCall* call, ApplyLaunch* launch) {
  for (int k = 0; k < static_cast<int>(launch->operands().size()); ++k) {
    const Operand& operand = launch->operands()[k];
    const bool is_read = operand.role == Role::kRead;
    if (sparse && is_read) continue;
    int length = launch->size();
    if (operand.optional) {
      TF_RETURN_IF_ERROR(GetNodeAttr(
          call->attributes(), absl::StrCat("num_", operand.name), &length));
    }
    for (int i = 0; length > 0 && i < launch->size(); ++i) {
      LaunchArray* const array = &launch->array(k, i);
      TF_RETURN_IF_ERROR(is_read ? call->Next(array)
                                 : call->NextUpdated(array));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGradientsFit(FfiCall* call) {
  const void* data;
  TF_RETURN_IF_ERROR(call->Scalar("misfit", &data));
  const int64_t i = ReadOnce(static_cast<const int64_t*>(data));
  if (i < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`gradients[", i, "]` must have the shape of `variables[", i,
                   "]`, but it has another size"));
}

}  // namespace

absl::Status ApplyCall(FfiCall* call) {
  ApplyAttributes attributes;
  TF_RETURN_IF_ERROR(attributes.Read(call->node()));
  int count = 0;
  TF_RETURN_IF_ERROR(GetNodeAttr(call->attributes(), "count", &count));
  ApplyLaunch launch(attributes.slots, count);
  TF_RETURN_IF_ERROR(
      GetNodeAttr(call->attributes(), "table_rows", &launch.table_rows));
  TF_RETURN_IF_ERROR(FindArrays(attributes.slices.sparse(), call, &launch));
  StepNumbers numbers;
  TF_RETURN_IF_ERROR(numbers.Read(attributes, *call, &launch));
  if (!numbers.frame.enabled) {
    call->CopyUpdated();
    return absl::OkStatus();
  }
  TF_RETURN_IF_ERROR(
      attributes.slices.sparse()
          ? call->FindSlices(attributes.slices, launch.size(), &launch.slices)
          : CheckGradientsFit(call));
  TF_RETURN_IF_ERROR(call->CheckAllRead());
  call->CopyUpdated();
  return ApplyOnCpu(attributes, numbers, launch, call->threads());
}

}  // namespace tf_opt
