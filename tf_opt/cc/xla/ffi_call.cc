#include "tf_opt/cc/xla/ffi_call.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tensorflow/core/platform/denormal.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/kernel.h"

namespace xla::ffi {
// Defined in TensorFlow's library. TensorFlow ships its header without the
// headers that it includes.
const XLA_FFI_Api* GetXlaFfiApi();
}  // namespace xla::ffi

namespace tf_opt {
namespace {

tensorflow::DataType TypeOf(xla::ffi::DataType type) {
  switch (type) {
    case xla::ffi::DataType::PRED:
      return tensorflow::DT_BOOL;
    case xla::ffi::DataType::S32:
      return tensorflow::DT_INT32;
    case xla::ffi::DataType::S64:
      return tensorflow::DT_INT64;
    case xla::ffi::DataType::F16:
      return tensorflow::DT_HALF;
    case xla::ffi::DataType::BF16:
      return tensorflow::DT_BFLOAT16;
    case xla::ffi::DataType::F32:
      return tensorflow::DT_FLOAT;
    case xla::ffi::DataType::F64:
      return tensorflow::DT_DOUBLE;
    default:
      return tensorflow::DT_INVALID;
  }
}

LaunchArray ArrayOfBuffer(const xla::ffi::AnyBuffer& buffer) {
  return MakeArray(buffer.untyped_data(), TypeOf(buffer.element_type()),
                   buffer.dimensions());
}

// The error for a call with other arguments than its function expects.
absl::Status OtherArguments() {
  return absl::InternalError(
      "a compiled call has other arguments than this tf_opt expects; was it "
      "compiled by another version?");
}

// Work in pieces for the caller, which may be one of the pool's threads itself,
// and for as many other threads as find time before it is done.
class SharedWork {
 public:
  SharedWork(int64_t total, int64_t piece,
             const std::function<void(int64_t, int64_t)>& body)
      : total_(total), piece_(piece), body_(body) {}

  void TakePieces() {
    const tensorflow::port::ScopedFlushDenormal flush_denormals;
    int64_t done = 0;
    while (true) {
      const int64_t begin = next_.fetch_add(piece_);
      if (begin >= total_) break;
      const int64_t end = std::min(begin + piece_, total_);
      // Alive, because the caller waits for this piece.
      body_(begin, end);
      done += end - begin;
    }
    if (done == 0) return;
    const absl::MutexLock lock(&mutex_);
    done_ += done;
  }

  void WaitUntilDone() {
    const absl::MutexLock lock(&mutex_);
    const auto all_done = [this] { return done_ == total_; };
    mutex_.Await(absl::Condition(&all_done));
  }

 private:
  const int64_t total_, piece_;
  // The caller's; used only while pieces are left.
  const std::function<void(int64_t, int64_t)>& body_;
  std::atomic<int64_t> next_ = 0;
  absl::Mutex mutex_;
  int64_t done_ = 0;
};

}  // namespace

FfiCall::FfiCall(xla::ffi::RemainingArgs arguments,
                 xla::ffi::RemainingRets results, std::string_view attributes,
                 xla::ffi::ThreadPool threads)
    : arguments_(arguments), results_(results), threads_(threads) {
  // If it can't be parsed, an attribute is missing: an error of its reader.
  node_.ParseFromArray(attributes.data(), static_cast<int>(attributes.size()));
}

absl::Status FfiCall::Next(LaunchArray* array) {
  if (next_argument_ >= arguments_.size()) return OtherArguments();
  const auto buffer = arguments_.get<xla::ffi::AnyBuffer>(next_argument_++);
  if (!buffer.has_value()) return OtherArguments();
  *array = ArrayOfBuffer(*buffer);
  return absl::OkStatus();
}

absl::Status FfiCall::NextResult(LaunchArray* array) {
  if (next_result_ >= results_.size()) return OtherArguments();
  auto buffer = results_.get<xla::ffi::AnyBuffer>(next_result_++);
  if (!buffer.has_value()) return OtherArguments();
  *array = ArrayOfBuffer(**buffer);
  return absl::OkStatus();
}

absl::Status FfiCall::NextUpdated(LaunchArray* array) {
  LaunchArray argument;
  TF_RETURN_IF_ERROR(Next(&argument));
  TF_RETURN_IF_ERROR(NextResult(array));
  if (array->data != argument.data) {
    copies_.push_back(
        {array->data, argument.data,
         argument.elements() * tensorflow::DataTypeSize(argument.type)});
  }
  return absl::OkStatus();
}

void FfiCall::CopyUpdated() const {
  for (const Copy& copy : copies_) {
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

absl::Status FfiCall::CheckAllRead() const {
  return next_argument_ == arguments_.size() && next_result_ == results_.size()
             ? absl::OkStatus()
             : OtherArguments();
}

absl::Status FfiCall::FindSlices(const SliceAttributes& attributes, int count,
                                 std::vector<Slices>* slices) {
  int accumulated = 0;
  TF_RETURN_IF_ERROR(
      tensorflow::GetNodeAttr(node_, "num_accumulated_rows", &accumulated));
  std::vector<LaunchArray> arrays((accumulated > 0 ? 3 : 2) * count);
  for (LaunchArray& array : arrays) TF_RETURN_IF_ERROR(Next(&array));
  LaunchArray last;
  TF_RETURN_IF_ERROR(Next(&last));
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    arrays[k].rows = static_cast<const int64_t*>(last.data)[k];
  }
  for (int i = 0; i < count; ++i) {
    slices->push_back({arrays[i], arrays[count + i], {}});
    if (accumulated > 0) {
      slices->back().accumulated_rows = arrays[2 * count + i];
    }
    const auto& [values, indices, more_rows] = slices->back();
    if (values.rows == indices.rows) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "`gradients[", i, "]`", attributes.Name(i),
        " must have one row of `variables[", i, "]` for each of the ",
        indices.rows, " `indices[", i, "]`, got ", values.rows));
  }
  return absl::OkStatus();
}

absl::Status FfiCall::Scalar(const char*, const void** data) {
  LaunchArray array;
  TF_RETURN_IF_ERROR(Next(&array));
  *data = array.data;
  return absl::OkStatus();
}

absl::Status FfiCall::OfVariables(const char*, int, PerVariable* vector) {
  LaunchArray array;
  TF_RETURN_IF_ERROR(Next(&array));
  *vector = {static_cast<const double*>(array.data), array.elements()};
  return tensorflow::GetNodeAttr(node_, "first", &vector->first);
}

CpuThreads FfiCall::threads() const {
  const int count =
      static_cast<int>(std::max<int64_t>(1, threads_.num_threads()));
  return {
      count, [this, count](int64_t total, int64_t block_size,
                           const std::function<void(int64_t, int64_t)>& body) {
        const auto work = std::make_shared<SharedWork>(total, block_size, body);
        const int64_t pieces = (total + block_size - 1) / block_size;
        const int64_t helpers = std::min<int64_t>(count, pieces) - 1;
        xla::ffi::ThreadPool threads = threads_;
        // No exception may leave this while helpers work: without memory
        // for another helper, the present ones do everything.
        try {
          for (int64_t i = 0; i < helpers; ++i) {
            threads.Schedule([work] { work->TakePieces(); });
          }
        } catch (const std::bad_alloc&) {
        }
        work->TakePieces();
        work->WaitUntilDone();
      }};
}

xla::ffi::Error RunFfiFunction(FfiFunction function,
                               xla::ffi::RemainingArgs arguments,
                               xla::ffi::RemainingRets results,
                               std::string_view attributes,
                               xla::ffi::ThreadPool threads) {
  const absl::Status status = StatusOf([&] {
    FfiCall call(arguments, results, attributes, threads);
    return function(&call);
  });
  if (status.ok()) return xla::ffi::Error::Success();
  // Both kinds of codes have the same numbers.
  return xla::ffi::Error(static_cast<xla::ffi::ErrorCode>(status.code()),
                         std::string(status.message()));
}

bool RegisterFfiHandler(const std::string& name, XLA_FFI_Handler* handler) {
  const XLA_FFI_Api* const api = xla::ffi::GetXlaFfiApi();
  XLA_FFI_Error* const error =
      xla::ffi::Ffi::RegisterStaticHandler(api, name, "Host", handler);
  if (error == nullptr) return true;
  xla::ffi::internal::DestroyError(api, error);
  return false;
}

}  // namespace tf_opt
