// Turns C++ exceptions into statuses: TensorFlow and XLA are compiled without
// exceptions, which would end the process.
#ifndef TF_OPT_CC_KERNELS_EXCEPTIONS_H_
#define TF_OPT_CC_KERNELS_EXCEPTIONS_H_

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_opt {

// Calls run() and returns its status or that of an exception.
template <typename Run>
absl::Status StatusOf(const Run& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& exception) {
    return absl::InternalError(exception.what());
  }
}

// A kernel that throws no exception.
template <typename Kernel>
class Guarded : public Kernel {
 public:
  using Kernel::Kernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    OP_REQUIRES_OK(context, StatusOf([&] {
                     Kernel::Compute(context);
                     return absl::OkStatus();
                   }));
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_EXCEPTIONS_H_
