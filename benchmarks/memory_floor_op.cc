// The memory floor: the traffic of an optimizer step and next to no arithmetic.
//
// A step is one pass over the gradient, or several. Each reads it, and reads
// and writes some arrays of its size: an Adam step the variable and two moments
// (AMSGrad: one array more, AveragedSGD: one less, an average of the variable
// or its master weights: one more), the norm of the gradients none. Each array
// may be of another type, float or bfloat16, which stands for all types of 16
// bits. This op does just that, over contiguous memory from TensorFlow's
// allocator, on TensorFlow's intra-op threads. No pass over the same number of
// elements can be faster.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/floors.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpInputList;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

// What a thread takes at a time: about a megabyte of traffic.
constexpr int64_t kBlockElements = 32 * 1024;
// A few cache lines of one array, then of the next. Where the arrays' sizes are
// powers of two, their lines compete for the same places in the caches, and to
// touch all arrays in every iteration takes a quarter longer.
constexpr int64_t kChunkElements = 64;
// How far ahead memory is asked for a chunk; without it the op is up to a tenth
// slower than an optimizer's step that does so.
constexpr int64_t kPrefetchElements = 512;

uint32_t Bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

uint32_t Bits(uint16_t x) { return x; }

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
  *to = static_cast<uint16_t>(Bits(x) >> 16);
}

template <typename T>
void Prefetch(const T* chunk) {
  constexpr int kCacheLine = 64;
  const char* bytes = reinterpret_cast<const char*>(chunk + kPrefetchElements);
  for (size_t i = 0; i < kChunkElements * sizeof(T); i += kCacheLine) {
    __builtin_prefetch(bytes + i, 1);
  }
}

template <typename T>
WIDEST_VECTORS uint32_t Read(const T* from, int64_t size) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < size; ++i) bits |= Bits(from[i]);
  return bits;
}

template <typename To, typename From>
WIDEST_VECTORS void Add(const From* __restrict from, To* __restrict to,
                        int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    Store(ToFloat(to[i]) + ToFloat(from[i]), &to[i]);
  }
}

// What a pass reads and writes.
struct Arrays {
  // Checks a variable's value and adds it to those of its type.
  absl::Status Append(const Tensor& gradient, Tensor* tensor) {
    const bool is_float = tensor->dtype() == tensorflow::DT_FLOAT;
    if ((!is_float && tensor->dtype() != tensorflow::DT_BFLOAT16) ||
        tensor->shape() != gradient.shape()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "every variable must have the gradient's shape, ",
          gradient.shape().DebugString(), ", and be float or bfloat16, got ",
          tensor->DebugString(0)));
    }
    if (is_float) {
      floats.push_back(static_cast<float*>(tensor->data()));
    } else {
      bfloat16s.push_back(static_cast<uint16_t*>(tensor->data()));
    }
    return absl::OkStatus();
  }

  std::vector<float*> floats;
  std::vector<uint16_t*> bfloat16s;
};

// T is the type of the gradient in memory.
template <typename T>
class MemoryFloorOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& gradient = context->input(0);
    OpInputList handles;
    OP_REQUIRES_OK(context, context->input_list("updated", &handles));
    Arrays arrays;
    for (const Tensor& handle : handles) {
      Tensor* tensor;
      OP_REQUIRES_OK(context, OwnTensor(context, handle, &tensor));
      OP_REQUIRES_OK(context, arrays.Append(gradient, tensor));
    }

    const T* g = static_cast<const T*>(gradient.data());
    const auto body = [&](int64_t begin, int64_t end) {
      uint32_t read = 0;
      for (int64_t i = begin; i < end; i += kChunkElements) {
        const int64_t size = std::min(kChunkElements, end - i);
        Prefetch(g + i);
        for (uint16_t* to : arrays.bfloat16s) Prefetch(to + i);
        for (float* to : arrays.floats) Prefetch(to + i);
        if (handles.size() == 0) read |= Read(g + i, size);
        for (uint16_t* to : arrays.bfloat16s) Add(g + i, to + i, size);
        for (float* to : arrays.floats) Add(g + i, to + i, size);
      }
      // The compiler would leave out the reading if nothing came of it.
      [[maybe_unused]] volatile uint32_t result = read;
    };
    context->device()->tensorflow_cpu_worker_threads()->workers->ParallelFor(
        gradient.NumElements(),
        tensorflow::thread::ThreadPool::SchedulingParams::Fixed(kBlockElements),
        body);
  }
};

REGISTER_OP("TfOpt>MemoryFloor")
    .Input("gradient: T")
    .Input("updated: num_updated * resource")
    .Attr("T: {bfloat16, float}")
    .Attr("num_updated: int >= 0")
    .SetIsStateful()  // Also where it only reads.
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Moves the bytes of one pass of an optimizer step in place.

gradient: What is read.
updated: Handles of the variables that are read and written, each of the
  gradient's shape, and float or bfloat16.
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
