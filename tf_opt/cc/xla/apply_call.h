// The call of a resource-apply op from a program compiled by XLA: the CPU's
// engine, in place. apply_xla_op.cc writes such calls.
//
// Arguments: for each operand that is present, in the order of kFrameOperands
// and then the rule's slots, the arrays of `count` variables; then the rule's
// scalars, the row number where a slot is a table, the vectors of
// kPerVariableInputs, the frame's scalars and the seed; last the number of a
// gradient that doesn't fit its variable, or -1. An op for sparse gradients has
// no dense gradients, and slices in place of that number (FfiCall::FindSlices).
// Results: all updated arrays, in the same order. Attributes: the op's, and
//
//   count       number of variables that this call updates
//   first       index of the first of them among the op's variables
//   table_rows  number of rows that all tables of the op's variables have
//
// An op may become several calls. Each makes all checks of the op, with the
// same numbers: either all calls refuse a step or none does.
#ifndef TF_OPT_CC_XLA_APPLY_CALL_H_
#define TF_OPT_CC_XLA_APPLY_CALL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/cpu/cpu_target.h"
#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/apply_on_cpu.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/kernels/scratch.h"
#include "tf_opt/cc/kernels/slices_on_cpu.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"
#include "tf_opt/cc/xla/apply_xla_op.h"
#include "tf_opt/cc/xla/ffi_call.h"

namespace tf_opt {

// Finds the arguments before the rule's scalars.
absl::Status FindArrays(const std::vector<Operand>& slots, bool sparse,
                        FfiCall* call, ApplyLaunch* launch);

// Finds the arguments between the rule's scalars and the frame's.
absl::Status FindVectors(FfiCall* call, ApplyLaunch* launch);

absl::Status ReadInteger(FfiCall* call, int64_t* number);

// Checks the argument after the seed if gradients are dense.
absl::Status CheckGradientsFit(FfiCall* call);

template <typename Numbers, std::size_t kCount>
absl::Status ReadScalars(const ScalarInput<Numbers> (&inputs)[kCount],
                         FfiCall* call, Numbers* numbers) {
  FfiArray scalar;
  for (const ScalarInput<Numbers>& input : inputs) {
    TF_RETURN_IF_ERROR(call->Next(&scalar));
    input.Read(scalar.data, numbers);
  }
  return absl::OkStatus();
}

template <typename Optimizer, bool kSparse>
absl::Status ApplyCall(FfiCall* call) {
  Optimizer optimizer;
  TF_RETURN_IF_ERROR(optimizer.Read(call->attributes()));
  ApplyLaunch launch;
  TF_RETURN_IF_ERROR(FindArrays(optimizer.slots(), kSparse, call, &launch));
  auto hyperparameters = optimizer.modes();
  TF_RETURN_IF_ERROR(ReadScalars(Optimizer::kScalars, call, &hyperparameters));
  TF_RETURN_IF_ERROR(FindVectors(call, &launch));
  FrameInputs frame = optimizer.frame();
  TF_RETURN_IF_ERROR(ReadScalars(kFrameScalars, call, &frame));
  TF_RETURN_IF_ERROR(ReadInteger(call, &frame.seed));
  if (!frame.enabled) {
    call->CopyUpdated();
    return absl::OkStatus();
  }
  SliceAttributes attributes;
  std::vector<RowSlices> slices;
  if constexpr (kSparse) {
    TF_RETURN_IF_ERROR(attributes.Read(call->attributes()));
    TF_RETURN_IF_ERROR(call->FindSlices(attributes, launch.size(), &slices));
  } else {
    TF_RETURN_IF_ERROR(CheckGradientsFit(call));
  }
  TF_RETURN_IF_ERROR(call->CheckAllRead());
  TF_RETURN_IF_ERROR(launch.CheckTypes());
  call->CopyUpdated();
  absl::Status status, applied;
  const auto apply = [&](auto type) {
    using Element = typename StorageTypeOf<decltype(type)>::type;
    status = RunOnCpu<Element>(
        optimizer, launch, hyperparameters, frame, [&](const auto& arguments) {
          if constexpr (kSparse) {
            HeapScratch scratch;
            applied = ApplySlices(launch, arguments, slices, attributes,
                                  call->num_threads(), call->parallel_for(),
                                  &scratch);
          } else {
            ApplyDense<Element>(arguments.tensors, arguments.rules,
                                ChosenCpuTarget(), call->num_threads(),
                                call->parallel_for(), arguments.update);
          }
        });
  };
  if (!WithElementType(launch.array(kVariable, 0).type, apply)) {
    return OtherArguments();
  }
  return status.ok() ? applied : status;
}

// Registers the op's kernel for XLA, and the function that it calls.
template <typename Optimizer, bool kSparse>
bool RegisterApplyForXla(const std::string& name) {
  return RegisterFfiFunction<ApplyCall<Optimizer, kSparse>>(name) &&
         RegisterApplyXlaOp(ApplyXlaOp::Of<Optimizer>(name, kSparse));
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_APPLY_CALL_H_
