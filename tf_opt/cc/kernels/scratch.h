// Temporary memory of a kernel.
#ifndef TF_OPT_CC_KERNELS_SCRATCH_H_
#define TF_OPT_CC_KERNELS_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace tf_opt {

class Scratch {
 public:
  virtual ~Scratch() = default;
  // Sets `memory` to this many bytes, which live as long as this object. Call
  // it once.
  virtual absl::Status Allocate(std::size_t bytes, void** memory) = 0;
};

// Memory of the running op's device, which accounts for it.
class OpScratch : public Scratch {
 public:
  explicit OpScratch(tensorflow::OpKernelContext* context)
      : context_(context) {}

  absl::Status Allocate(std::size_t bytes, void** memory) override {
    absl::Status status = context_->allocate_temp(
        tensorflow::DT_INT8,
        tensorflow::TensorShape({static_cast<int64_t>(bytes)}), &tensor_);
    if (status.ok()) *memory = tensor_.data();
    return status;
  }

 private:
  tensorflow::OpKernelContext* const context_;
  tensorflow::Tensor tensor_;
};

// Memory of the process: XLA provides none on CPUs.
class HeapScratch : public Scratch {
 public:
  absl::Status Allocate(std::size_t bytes, void** memory) override {
    bytes_.reset(new (std::nothrow) char[bytes]);
    *memory = bytes_.get();
    return bytes_ != nullptr ? absl::OkStatus()
                             : absl::ResourceExhaustedError(absl::StrCat(
                                   "OOM when allocating ", bytes,
                                   " bytes to sort the rows of gradients"));
  }

 private:
  std::unique_ptr<char[]> bytes_;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_SCRATCH_H_
