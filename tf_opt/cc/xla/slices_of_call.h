// The slices that a call is given; slice_arguments.h says how.
#ifndef TF_OPT_CC_XLA_SLICES_OF_CALL_H_
#define TF_OPT_CC_XLA_SLICES_OF_CALL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tf_opt/cc/kernels/row_slices.h"
#include "tf_opt/cc/xla/ffi_call.h"

namespace tf_opt {

// Finds those of `count` tables in a call's arguments, from number `first` on,
// after which there must be no others.
absl::Status FindSlices(const FfiCall& call, const SliceAttributes& attributes,
                        int64_t first, int count,
                        std::vector<RowSlices>* slices);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_SLICES_OF_CALL_H_
