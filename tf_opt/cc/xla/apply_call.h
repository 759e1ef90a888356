// The call of a resource-apply op from a program compiled by XLA.
#ifndef TF_OPT_CC_XLA_APPLY_CALL_H_
#define TF_OPT_CC_XLA_APPLY_CALL_H_

#include "absl/status/status.h"
#include "tf_opt/cc/xla/ffi_call.h"

namespace tf_opt {

// Runs the CPU's engine, in place.
absl::Status ApplyCall(FfiCall* call);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_APPLY_CALL_H_
