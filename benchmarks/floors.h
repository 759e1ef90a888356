// What the ops that measure floors have in common.
#ifndef TF_OPT_BENCHMARKS_FLOORS_H_
#define TF_OPT_BENCHMARKS_FLOORS_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/platform/refcount.h"

// Cloned for the wide registers, so that also data that sits in a cache moves
// as fast as it can.
#if defined(__x86_64__)
#define WIDEST_VECTORS \
  __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define WIDEST_VECTORS
#endif

namespace tf_opt {

// The value of a variable, to be written to. Without its lock: the benchmark
// alone knows these variables, and runs one step at a time.
inline absl::Status OwnTensor(tensorflow::OpKernelContext* context,
                              const tensorflow::Tensor& handle,
                              tensorflow::Tensor** tensor) {
  tensorflow::core::RefCountPtr<tensorflow::Var> variable;
  absl::Status status = LookupResource(
      context, handle.scalar<tensorflow::ResourceHandle>()(), &variable);
  if (!status.ok()) return status;
  *tensor = variable->tensor();
  if (!(*tensor)->RefCountIsOne()) {
    return absl::FailedPreconditionError(
        "a variable's buffer is shared; assign a tensor of its own to it");
  }
  return absl::OkStatus();
}

}  // namespace tf_opt

#endif  // TF_OPT_BENCHMARKS_FLOORS_H_
