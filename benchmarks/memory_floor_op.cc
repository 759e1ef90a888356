// The memory floor: the traffic of an optimizer step and next to no arithmetic.
//
// An Adam step must read the variable, the gradient and two moments and write
// all but the gradient (NAdam and ASGD likewise; AMSGrad: one array more of
// each, AveragedSGD: one less). This op does just that, over contiguous memory
// from TensorFlow's allocator, on TensorFlow's intra-op threads. No step over
// the same number of elements can be faster.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"
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
namespace {

using ::tensorflow::OpInputList;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::Var;
using ::tensorflow::core::RefCountPtr;

// What a thread takes at a time: about a megabyte of traffic.
constexpr int64_t kBlockElements = 32 * 1024;
// A few cache lines of one array, then of the next. Where the arrays' sizes are
// powers of two, their lines compete for the same places in the caches, and to
// touch all arrays in every iteration takes a quarter longer.
constexpr int64_t kChunkElements = 64;
// How far ahead memory is asked for a chunk; without it the op is up to a tenth
// slower than an optimizer's step that does so.
constexpr int64_t kPrefetchElements = 512;

float ToFloat(float x) { return x; }

// bfloat16, as the upper half of a float.
float ToFloat(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

void Store(float x, float* to) { *to = x; }

void Store(float x, uint16_t* to) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  *to = static_cast<uint16_t>(bits >> 16);
}

template <typename T>
void Prefetch(const T* chunk) {
  constexpr int kCacheLine = 64;
  const char* bytes = reinterpret_cast<const char*>(chunk + kPrefetchElements);
  for (size_t i = 0; i < kChunkElements * sizeof(T); i += kCacheLine) {
    __builtin_prefetch(bytes + i, 1);
  }
}

template <typename To, typename From>
WIDEST_VECTORS void Add(const From* __restrict from, To* __restrict to,
                        int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    Store(ToFloat(to[i]) + ToFloat(from[i]), &to[i]);
  }
}

// T is the type of the variable in memory.
template <typename T>
class MemoryFloorOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& gradient = context->input(1);
    OpInputList slot_handles;
    OP_REQUIRES_OK(context, context->input_list("slots", &slot_handles));

    void* variable;
    OP_REQUIRES_OK(context, Buffer(context, context->input(0), gradient.dtype(),
                                   &variable));
    std::vector<float*> slots;
    for (int i = 0; i < slot_handles.size(); ++i) {
      void* slot;
      OP_REQUIRES_OK(context, Buffer(context, slot_handles[i],
                                     tensorflow::DT_FLOAT, &slot));
      slots.push_back(static_cast<float*>(slot));
    }

    T* p = static_cast<T*>(variable);
    const T* g = static_cast<const T*>(gradient.data());
    const auto body = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kChunkElements) {
        const int64_t size = std::min(kChunkElements, end - i);
        Prefetch(p + i);
        Prefetch(g + i);
        for (float* slot : slots) Prefetch(slot + i);
        Add(g + i, p + i, size);
        for (float* slot : slots) Add(g + i, slot + i, size);
      }
    };
    context->device()->tensorflow_cpu_worker_threads()->workers->ParallelFor(
        gradient.NumElements(),
        tensorflow::thread::ThreadPool::SchedulingParams::Fixed(kBlockElements),
        body);
  }

 private:
  // The memory of a variable. Without its lock: the benchmark alone knows
  // these variables, and runs one step at a time.
  static absl::Status Buffer(OpKernelContext* context, const Tensor& handle,
                             tensorflow::DataType dtype, void** buffer) {
    RefCountPtr<Var> variable;
    absl::Status status = LookupResource(
        context, handle.scalar<tensorflow::ResourceHandle>()(), &variable);
    if (!status.ok()) return status;
    Tensor* tensor = variable->tensor();
    if (tensor->dtype() != dtype ||
        tensor->shape() != context->input(1).shape()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "every variable must have the gradient's shape, ",
          context->input(1).shape().DebugString(), ", and be of ",
          tensorflow::DataTypeString(dtype), ", got ", tensor->DebugString(0)));
    }
    if (!tensor->RefCountIsOne()) {
      return absl::FailedPreconditionError(
          "a variable's buffer is shared; assign a tensor of its own to it");
    }
    *buffer = tensor->data();
    return absl::OkStatus();
  }
};

REGISTER_OP("TfOpt>MemoryFloor")
    .Input("variable: resource")
    .Input("gradient: T")
    .Input("slots: num_slots * resource")
    .Attr("T: {bfloat16, float}")
    .Attr("num_slots: int >= 1")
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Moves the bytes of an optimizer step in place.

variable: Handle of a variable of type T.
gradient: A tensor of the variable's shape.
slots: Handles of float32 variables of that shape.
)doc");

REGISTER_KERNEL_BUILDER(Name("TfOpt>MemoryFloor")
                            .Device(tensorflow::DEVICE_CPU)
                            .TypeConstraint<float>("T"),
                        MemoryFloorOp<float>);
REGISTER_KERNEL_BUILDER(Name("TfOpt>MemoryFloor")
                            .Device(tensorflow::DEVICE_CPU)
                            .TypeConstraint<Eigen::bfloat16>("T"),
                        MemoryFloorOp<uint16_t>);

}  // namespace
}  // namespace tf_opt
