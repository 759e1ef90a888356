// A call from a program compiled by XLA into this library.
#ifndef TF_OPT_CC_XLA_FFI_CALL_H_
#define TF_OPT_CC_XLA_FFI_CALL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tf_opt/cc/kernels/apply_launch.h"
#include "tf_opt/cc/kernels/cpu_threads.h"
#include "tf_opt/cc/kernels/launch_array.h"
#include "tf_opt/cc/kernels/numbers.h"
#include "tf_opt/cc/kernels/slices.h"
#include "xla/ffi/api/ffi.h"

namespace tf_opt {

// The arguments of a call are read in order. An array that the call writes is
// an argument and a result, usually in the same memory.
class FfiCall : public NumberSource {
 public:
  // `attributes` is a serialized NodeDef; see CustomCall::Make.
  FfiCall(xla::ffi::RemainingArgs arguments, xla::ffi::RemainingRets results,
          std::string_view attributes, xla::ffi::ThreadPool threads);

  // The op's name and attributes, and attributes of the call.
  const tensorflow::NodeDef& node() const { return node_; }
  tensorflow::AttrSlice attributes() const { return node_; }

  // Finds the next argument.
  absl::Status Next(LaunchArray* array);
  // Finds the next argument and the next result, which becomes a copy of it
  // when CopyUpdated() is called.
  absl::Status NextUpdated(LaunchArray* array);
  void CopyUpdated() const;
  // Finds the next result, which is not an argument.
  absl::Status NextResult(LaunchArray* array);
  // Checks that no argument or result is left.
  absl::Status CheckAllRead() const;

  // Finds the sparse gradients of `count` tables, which are the last arguments:
  // all values, all indices, all accumulated rows if there are any, and an
  // int64 vector with the number of rows of each, since arrays may have room
  // for more.
  absl::Status FindSlices(const SliceAttributes& attributes, int count,
                          std::vector<Slices>* slices);

  // The next arguments as numbers; see numbers.h.
  absl::Status Scalar(const char* name, const void** data) override;
  absl::Status OfVariables(const char* name, int count,
                           PerVariable* vector) override;

  // The program's threads, valid during the call. They also work on one of the
  // pool's threads while all others are busy.
  CpuThreads threads() const;

 private:
  struct Copy {
    void* to;
    const void* from;
    int64_t bytes;
  };

  const xla::ffi::RemainingArgs arguments_;
  const xla::ffi::RemainingRets results_;
  const xla::ffi::ThreadPool threads_;
  tensorflow::NodeDef node_;
  std::size_t next_argument_ = 0;
  std::size_t next_result_ = 0;
  std::vector<Copy> copies_;
};

// The work of a call.
using FfiFunction = absl::Status (*)(FfiCall* call);

// Runs `function`; no exception leaves it.
xla::ffi::Error RunFfiFunction(FfiFunction function,
                               xla::ffi::RemainingArgs arguments,
                               xla::ffi::RemainingRets results,
                               std::string_view attributes,
                               xla::ffi::ThreadPool threads);

// Registers a handler for CPUs and returns whether XLA accepted it.
bool RegisterFfiHandler(const std::string& name, XLA_FFI_Handler* handler);

template <FfiFunction kFunction>
bool RegisterFfiFunction(const std::string& name) {
  return RegisterFfiHandler(name, [](XLA_FFI_CallFrame* frame) {
    // Never deleted: calls may outlive static objects.
    static auto* const handler =
        xla::ffi::Ffi::Bind()
            .RemainingArgs()
            .RemainingRets()
            .Attr<std::string_view>("attributes")
            .Ctx<xla::ffi::ThreadPool>()
            .To([](xla::ffi::RemainingArgs arguments,
                   xla::ffi::RemainingRets results, std::string_view attributes,
                   xla::ffi::ThreadPool threads) {
              return RunFfiFunction(kFunction, arguments, results, attributes,
                                    threads);
            })
            .release();
    return handler->Call(frame);
  });
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_FFI_CALL_H_
