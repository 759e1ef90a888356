#include "tf_opt/cc/xla/ffi_call.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <new>

#include "absl/synchronization/mutex.h"
#include "tensorflow/core/platform/denormal.h"
#include "tf_opt/cc/kernels/exceptions.h"

namespace xla::ffi {
// Of TensorFlow's library; its header needs others that TensorFlow leaves out.
const XLA_FFI_Api* GetXlaFfiApi();
}  // namespace xla::ffi

namespace tf_opt {
namespace {

tensorflow::DataType TypeOf(XLA_FFI_DataType type) {
  switch (type) {
    case XLA_FFI_DataType_PRED:
      return tensorflow::DT_BOOL;
    case XLA_FFI_DataType_S32:
      return tensorflow::DT_INT32;
    case XLA_FFI_DataType_S64:
      return tensorflow::DT_INT64;
    case XLA_FFI_DataType_F16:
      return tensorflow::DT_HALF;
    case XLA_FFI_DataType_BF16:
      return tensorflow::DT_BFLOAT16;
    case XLA_FFI_DataType_F32:
      return tensorflow::DT_FLOAT;
    case XLA_FFI_DataType_F64:
      return tensorflow::DT_DOUBLE;
    default:
      return tensorflow::DT_INVALID;
  }
}

FfiArray ArrayOf(const void* opaque) {
  const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(opaque);
  const int64_t rows = buffer.rank > 0 ? buffer.dims[0] : 1;
  // Where there are no rows it may be any product.
  uint64_t width = 1;
  for (int64_t i = 1; i < buffer.rank; ++i) width *= buffer.dims[i];
  return {buffer.data,
          TypeOf(buffer.dtype),
          rows,
          static_cast<int64_t>(width),
          static_cast<int64_t>(rows * width),
          static_cast<int>(buffer.rank)};
}

// Work in pieces that whoever comes takes: the caller, who may be one of the
// pool's threads itself, and as many others as find time before it is done.
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
      // Alive, as not all is done.
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

// What XLA answers is null or an error, which belongs to whoever asked. Returns
// whether it was null.
bool Succeeded(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  if (error == nullptr) return true;
  XLA_FFI_Error_Destroy_Args arguments = {};
  arguments.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  arguments.error = error;
  api->XLA_FFI_Error_Destroy(&arguments);
  return false;
}

// One more thread for it.
void TakePiecesOf(void* work) {
  const std::unique_ptr<std::shared_ptr<SharedWork>> own(
      static_cast<std::shared_ptr<SharedWork>*>(work));
  (*own)->TakePieces();
}

}  // namespace

const void* FfiCall::FindAttr(std::string_view name,
                              XLA_FFI_AttrType type) const {
  const XLA_FFI_Attrs& attributes = frame_.attrs;
  for (int64_t i = 0; i < attributes.size; ++i) {
    const XLA_FFI_ByteSpan& found = *attributes.names[i];
    if (std::string_view(found.ptr, found.len) != name) continue;
    return attributes.types[i] == type ? attributes.attrs[i] : nullptr;
  }
  return nullptr;
}

absl::Status FfiCall::GetAttr(std::string_view name, int64_t* value) const {
  const auto* const scalar = static_cast<const XLA_FFI_Scalar*>(
      FindAttr(name, XLA_FFI_AttrType_SCALAR));
  if (scalar == nullptr || scalar->dtype != XLA_FFI_DataType_S64) {
    return OtherArguments();
  }
  *value = *static_cast<const int64_t*>(scalar->value);
  return absl::OkStatus();
}

absl::Status FfiCall::GetAttr(std::string_view name,
                              std::vector<int64_t>* value) const {
  const auto* const array =
      static_cast<const XLA_FFI_Array*>(FindAttr(name, XLA_FFI_AttrType_ARRAY));
  if (array == nullptr || array->dtype != XLA_FFI_DataType_S64) {
    return OtherArguments();
  }
  const auto* const numbers = static_cast<const int64_t*>(array->data);
  value->assign(numbers, numbers + array->size);
  return absl::OkStatus();
}

absl::Status FfiCall::GetAttr(std::string_view name,
                              std::vector<std::string>* value) const {
  const auto* const found = static_cast<const XLA_FFI_ByteSpan*>(
      FindAttr(name, XLA_FFI_AttrType_STRING));
  if (found == nullptr) return OtherArguments();
  value->clear();
  // Each ends with a zero; see AttributesOf.
  for (std::string_view rest(found->ptr, found->len); !rest.empty();) {
    const std::size_t length = rest.find('\0');
    if (length == rest.npos) return OtherArguments();
    value->emplace_back(rest.substr(0, length));
    rest.remove_prefix(length + 1);
  }
  return absl::OkStatus();
}

absl::Status FfiCall::GetAttr(std::string_view name, int* value) const {
  int64_t number = 0;
  absl::Status status = GetAttr(name, &number);
  *value = static_cast<int>(number);
  return status;
}

absl::Status FfiCall::GetAttr(std::string_view name, bool* value) const {
  int64_t number = 0;
  absl::Status status = GetAttr(name, &number);
  *value = number != 0;
  return status;
}

FfiArray FfiCall::argument(int64_t i) const {
  return ArrayOf(frame_.args.args[i]);
}

FfiArray FfiCall::result(int64_t i) const {
  return ArrayOf(frame_.rets.rets[i]);
}

int FfiCall::num_threads() const {
  int64_t count = 1;
  XLA_FFI_ThreadPool_NumThreads_Args arguments = {};
  arguments.struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE;
  arguments.ctx = frame_.ctx;
  arguments.num_threads = &count;
  // An error: there is no pool.
  return Succeeded(frame_.api,
                   frame_.api->XLA_FFI_ThreadPool_NumThreads(&arguments))
             ? static_cast<int>(count)
             : 1;
}

ParallelFor FfiCall::parallel_for() const {
  return [this](int64_t total, int64_t block_size,
                const std::function<void(int64_t, int64_t)>& body) {
    const auto work = std::make_shared<SharedWork>(total, block_size, body);
    const int64_t pieces = (total + block_size - 1) / block_size;
    const int64_t helpers = std::min<int64_t>(num_threads(), pieces) - 1;
    for (int64_t i = 0; i < helpers; ++i) {
      XLA_FFI_ThreadPool_Schedule_Args arguments = {};
      arguments.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE;
      arguments.ctx = frame_.ctx;
      arguments.task = TakePiecesOf;
      // Without memory for another helper those do it that there are; while
      // they work nothing may be thrown.
      std::unique_ptr<std::shared_ptr<SharedWork>> own(
          new (std::nothrow) std::shared_ptr<SharedWork>(work));
      if (own == nullptr) break;
      arguments.data = own.get();
      if (!Succeeded(frame_.api,
                     frame_.api->XLA_FFI_ThreadPool_Schedule(&arguments))) {
        break;
      }
      own.release();  // The task's.
    }
    work->TakePieces();
    work->WaitUntilDone();
  };
}

absl::Status OtherArguments() {
  return absl::InternalError(
      "a compiled call has other arguments than this tf_opt expects; was it "
      "compiled by another version?");
}

XLA_FFI_Error* AnswerFfiCall(XLA_FFI_CallFrame* frame, FfiFunction function) {
  for (XLA_FFI_Extension_Base* extension = frame->extension_start;
       extension != nullptr; extension = extension->next) {
    if (extension->type != XLA_FFI_Extension_Metadata) continue;
    // XLA asks for which version of the interface this was made.
    XLA_FFI_Metadata* const metadata =
        reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata->api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    metadata->traits = 0;
    return nullptr;
  }
  const absl::Status status =
      StatusOf([&] { return function(FfiCall(frame)); });
  if (status.ok()) return nullptr;
  const std::string message(status.message());
  XLA_FFI_Error_Create_Args arguments = {};
  arguments.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  arguments.message = message.c_str();
  // The codes are the same.
  arguments.errc = static_cast<XLA_FFI_Error_Code>(status.code());
  return frame->api->XLA_FFI_Error_Create(&arguments);
}

bool RegisterFfiHandler(const std::string& name, XLA_FFI_Handler* handler) {
  const XLA_FFI_Api* const api = xla::ffi::GetXlaFfiApi();
  const std::string platform = "Host";
  XLA_FFI_Handler_Register_Args arguments = {};
  arguments.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
  arguments.name = {name.data(), name.size()};
  arguments.platform = {platform.data(), platform.size()};
  arguments.bundle.execute = handler;
  return Succeeded(api, api->XLA_FFI_Handler_Register(&arguments));
}

}  // namespace tf_opt
