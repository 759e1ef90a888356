// Floors: ops that move the bytes of an optimizer step and compute next to
// nothing, over contiguous memory from TensorFlow's allocator, on TensorFlow's
// intra-op threads. No step that moves the same bytes can be faster.
//
// A pass of a dense step reads the gradient, and reads and writes arrays of its
// size: Adam's step updates the variable and two moments, the norm of the
// gradients nothing. Each array is float or bfloat16, which stands for all
// types of 16 bits.
//
// A sparse step reads the gradient of some ids, and reads and writes their rows
// of some tables. The rows are sorted and without repeats. Given all rows, this
// is the floor of a step that updates a whole table.
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
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShapeUtils;

// Finds the value of a variable, to write to it. Takes no lock: only the
// benchmark uses these variables, one step at a time.
absl::Status OwnTensor(tensorflow::OpKernelContext* context,
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

// The traffic that a thread takes at a time.
constexpr int64_t kBlockBytes = 256 * 1024;
struct Traffic {
  const float* gradient;
  int64_t num_ids;
  const int32_t* rows;
  int64_t num_rows;
  int64_t width;
  std::vector<float*> updated;
};

inline void PrefetchRow(const Traffic& of, int64_t i) {
  constexpr int64_t kCacheLine = 64 / sizeof(float);
  const int64_t offset = of.rows[i] * of.width;
  for (const float* array : of.updated) {
    for (int64_t k = 0; k < of.width; k += kCacheLine) {
      __builtin_prefetch(array + offset + k, 1);
    }
  }
}

WIDEST_VECTORS void Move(const Traffic& of, int64_t begin, int64_t end) {
  const int64_t distance = std::max<int64_t>(1, kPrefetchElements / of.width);
  for (int64_t i = begin; i < std::min(begin + distance, end); ++i) {
    PrefetchRow(of, i);
  }
  for (int64_t i = begin; i < end; ++i) {
    if (i + distance < end) PrefetchRow(of, i + distance);
    // The gradient is dealt out evenly. If it has fewer rows than are updated,
    // some share one, which is read from memory but once.
    const int64_t first = i * of.num_ids / of.num_rows;
    const int64_t last = (i + 1) * of.num_ids / of.num_rows;
    const float* g = of.gradient + first * of.width;
    const int64_t offset = of.rows[i] * of.width;
    for (float* array : of.updated) Add(g, array + offset, of.width);
    for (int64_t id = first + 1; id < last; ++id) {
      Add(of.gradient + id * of.width, of.updated[0] + offset, of.width);
    }
  }
}

class RowFloorOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& gradient = context->input(0);
    const Tensor& rows = context->input(1);
    OP_REQUIRES(context,
                TensorShapeUtils::IsMatrix(gradient.shape()) &&
                    TensorShapeUtils::IsVector(rows.shape()) &&
                    gradient.NumElements() > 0 && rows.NumElements() > 0,
                absl::InvalidArgumentError(absl::StrCat(
                    "gradient must be a matrix and rows a vector, neither "
                    "empty, got shapes ",
                    gradient.shape().DebugString(), " and ",
                    rows.shape().DebugString())));
    Traffic traffic{gradient.flat<float>().data(), gradient.dim_size(0),
                    rows.flat<int32_t>().data(),   rows.dim_size(0),
                    gradient.dim_size(1),          {}};
    OpInputList handles;
    OP_REQUIRES_OK(context, context->input_list("updated", &handles));
    for (const Tensor& handle : handles) {
      Tensor* tensor;
      OP_REQUIRES_OK(context, OwnTensor(context, handle, &tensor));
      OP_REQUIRES_OK(context, Check(traffic, *tensor));
      traffic.updated.push_back(tensor->flat<float>().data());
    }

    const int64_t row_bytes =
        traffic.width * sizeof(float) * (1 + 2 * traffic.updated.size());
    context->device()->tensorflow_cpu_worker_threads()->workers->ParallelFor(
        traffic.num_rows,
        tensorflow::thread::ThreadPool::SchedulingParams::Fixed(
            std::max<int64_t>(1, kBlockBytes / row_bytes)),
        [&](int64_t begin, int64_t end) { Move(traffic, begin, end); });
  }

 private:
  // That all rows are within a variable, if they are sorted as promised.
  static absl::Status Check(const Traffic& traffic, const Tensor& tensor) {
    if (tensor.dtype() != tensorflow::DT_FLOAT || tensor.dims() != 2 ||
        tensor.dim_size(1) != traffic.width || traffic.rows[0] < 0 ||
        traffic.rows[traffic.num_rows - 1] >= tensor.dim_size(0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "every variable must be a float matrix with the gradient's width, ",
          traffic.width, ", and have the rows ", traffic.rows[0], " to ",
          traffic.rows[traffic.num_rows - 1], ", got ", tensor.DebugString(0)));
    }
    return absl::OkStatus();
  }
};

REGISTER_OP("TfOpt>MemoryFloor")
    .Input("gradient: T")
    .Input("updated: num_updated * resource")
    .Attr("T: {bfloat16, float}")
    .Attr("num_updated: int >= 0")
    .SetIsStateful()  // Also where it only reads.
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_KERNEL_BUILDER(Name("TfOpt>MemoryFloor")
                            .Device(tensorflow::DEVICE_CPU)
                            .TypeConstraint<float>("T"),
                        MemoryFloorOp<float>);
REGISTER_KERNEL_BUILDER(Name("TfOpt>MemoryFloor")
                            .Device(tensorflow::DEVICE_CPU)
                            .TypeConstraint<Eigen::bfloat16>("T"),
                        MemoryFloorOp<uint16_t>);

REGISTER_OP("TfOpt>RowFloor")
    .Input("gradient: float")
    .Input("rows: int32")
    .Input("updated: num_updated * resource")
    .Attr("num_updated: int >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_KERNEL_BUILDER(Name("TfOpt>RowFloor").Device(tensorflow::DEVICE_CPU),
                        RowFloorOp);

}  // namespace
}  // namespace tf_opt
