#include "tf_opt/cc/xla/apply_call.h"

#include "absl/strings/str_cat.h"
#include "tf_opt/cc/ops/operand_checks.h"

namespace tf_opt {

absl::Status FindArrays(const std::vector<Operand>& slots, bool sparse,
                        FfiCall* call, ApplyLaunch* launch) {
  int count = 0;
  TF_RETURN_IF_ERROR(GetNodeAttr(call->attributes(), "count", &count));
  *launch = ApplyLaunch(slots, count);
  TF_RETURN_IF_ERROR(
      GetNodeAttr(call->attributes(), "table_rows", &launch->table_rows));
  for (int k = 0; k < static_cast<int>(launch->operands().size()); ++k) {
    const Operand& operand = launch->operands()[k];
    if (sparse && operand.role == Role::kRead) continue;
    if (operand.optional) {
      int length = 0;
      TF_RETURN_IF_ERROR(GetNodeAttr(
          call->attributes(), absl::StrCat("num_", operand.name), &length));
      if (length == 0) continue;
    }
    for (int i = 0; i < count; ++i) {
      FfiArray array;
      TF_RETURN_IF_ERROR(operand.role == Role::kRead
                             ? call->Next(&array)
                             : call->NextUpdated(&array));
      launch->array(k, i) = array;
    }
  }
  return absl::OkStatus();
}

absl::Status FindVectors(FfiCall* call, ApplyLaunch* launch) {
  FfiArray array;
  if (launch->has_table()) {
    TF_RETURN_IF_ERROR(call->Next(&array));
    launch->row = static_cast<const int64_t*>(array.data);
  }
  int64_t first = 0;
  TF_RETURN_IF_ERROR(GetNodeAttr(call->attributes(), "first", &first));
  for (PerVariable& vector : launch->vectors) {
    TF_RETURN_IF_ERROR(call->Next(&array));
    vector = {static_cast<const double*>(array.data), array.elements, first};
  }
  return absl::OkStatus();
}

absl::Status ReadInteger(FfiCall* call, int64_t* number) {
  FfiArray array;
  TF_RETURN_IF_ERROR(call->Next(&array));
  *number = ReadOnce(static_cast<const int64_t*>(array.data));
  return absl::OkStatus();
}

absl::Status CheckGradientsFit(FfiCall* call) {
  int64_t misfit = -1;
  TF_RETURN_IF_ERROR(ReadInteger(call, &misfit));
  return misfit < 0 ? absl::OkStatus() : GradientDoesNotFit(misfit);
}

}  // namespace tf_opt
