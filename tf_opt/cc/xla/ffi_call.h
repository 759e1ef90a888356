// A call that a program compiled by XLA makes to code of ours: what it is
// given, and how it answers. Through XLA's C interface, which is versioned and
// which no other library can take the place of.
#ifndef TF_OPT_CC_XLA_FFI_CALL_H_
#define TF_OPT_CC_XLA_FFI_CALL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/engines/parallel_for.h"
#include "xla/ffi/api/c_api.h"

namespace tf_opt {

// An array that a call is given. One to be written is given twice, as an
// argument and as a result.
struct FfiArray {
  void* data;
  tensorflow::DataType type;
  int64_t rows;      // The first dimension; 1 of a scalar.
  int64_t width;     // How many elements a row has: of the other dimensions.
  int64_t elements;  // Of all dimensions.
  int rank;
};

class FfiCall {
 public:
  explicit FfiCall(XLA_FFI_CallFrame* frame) : frame_(*frame) {}

  // Sets `value` to the attribute of this name, as of an op's kernel.
  absl::Status GetAttr(std::string_view name, int64_t* value) const;
  absl::Status GetAttr(std::string_view name, int* value) const;
  absl::Status GetAttr(std::string_view name, bool* value) const;
  absl::Status GetAttr(std::string_view name,
                       std::vector<int64_t>* value) const;
  absl::Status GetAttr(std::string_view name,
                       std::vector<std::string>* value) const;

  int64_t argument_count() const { return frame_.args.size; }
  FfiArray argument(int64_t i) const;
  int64_t result_count() const { return frame_.rets.size; }
  FfiArray result(int64_t i) const;

  // The threads of the program.
  int num_threads() const;
  // Valid during the call. What it returns works with any number of threads,
  // also if the caller is one of them and the others are at work elsewhere.
  ParallelFor parallel_for() const;

 private:
  // The attribute of this name, if it is of this type; or null.
  const void* FindAttr(std::string_view name, XLA_FFI_AttrType type) const;

  const XLA_FFI_CallFrame& frame_;
};

// The error for a call with other arguments than its function expects.
absl::Status OtherArguments();

// Calls use(T()) with TensorFlow's type of variables of this type. Returns
// false if there are none.
template <typename Use>
bool WithElementType(tensorflow::DataType type, const Use& use) {
  if (type == tensorflow::DT_HALF) {
    use(Eigen::half());
  } else if (type == tensorflow::DT_BFLOAT16) {
    use(Eigen::bfloat16());
  } else if (type == tensorflow::DT_FLOAT) {
    use(float());
  } else if (type == tensorflow::DT_DOUBLE) {
    use(double());
  } else {
    return false;
  }
  return true;
}

// Does the work of a call.
using FfiFunction = absl::Status (*)(const FfiCall& call);

// The answer to a call: null, or the error.
XLA_FFI_Error* AnswerFfiCall(XLA_FFI_CallFrame* frame, FfiFunction function);

// Returns whether it could be registered.
bool RegisterFfiHandler(const std::string& name, XLA_FFI_Handler* handler);

template <FfiFunction kFunction>
bool RegisterFfiFunction(const std::string& name) {
  return RegisterFfiHandler(name, [](XLA_FFI_CallFrame* frame) {
    return AnswerFfiCall(frame, kFunction);
  });
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_FFI_CALL_H_
