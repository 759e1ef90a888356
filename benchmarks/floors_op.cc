// The memory floor: an op that moves the bytes of an optimizer step and
// computes next to nothing, on TensorFlow's threads. No step that moves the
// same bytes can be faster.
//
// A step reads the gradient of some ids, and reads and writes rows of some
// arrays. A dense step is one whose rows are pieces of contiguous memory.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

// What a thread takes at a time.
constexpr int64_t kBlockBytes = 1 << 18;
// How far ahead memory is requested. Without that the op is up to a tenth
// slower than an optimizer's step that does so.
constexpr int64_t kPrefetchBytes = 2048;

// Rows of memory, as words of four bytes.
struct Rows {
  explicit Rows(const Tensor& tensor)
      : data(static_cast<uint32_t*>(tensor.data())),
        count(tensor.dim_size(0)),
        words(tensor.TotalBytes() / sizeof(uint32_t) / count) {}

  uint32_t* operator[](int64_t row) const { return data + row * words; }

  void Prefetch(int64_t row) const {
    constexpr int64_t kCacheLine = 64 / sizeof(uint32_t);
    for (int64_t k = 0; k < words; k += kCacheLine) {
      __builtin_prefetch((*this)[row] + k, 1);
    }
  }

  uint32_t* data;
  int64_t count;
  int64_t words;
};

struct Traffic {
  Rows gradient;
  // The sorted rows to update; null for all.
  const int32_t* rows;
  int64_t num_rows;
  std::vector<Rows> updated;

  int64_t Row(int64_t i) const { return rows ? rows[i] : i; }

  void Prefetch(int64_t i) const {
    for (const Rows& array : updated) array.Prefetch(Row(i));
  }
};

// For wide registers too: rows may sit in a cache.
#if defined(__x86_64__)
__attribute__((target_clones("default", "arch=x86-64-v3")))
#endif
void Move(const Traffic& of, int64_t begin, int64_t end) {
  const int64_t row_bytes = of.gradient.words * sizeof(uint32_t);
  const int64_t distance = std::max<int64_t>(1, kPrefetchBytes / row_bytes);
  for (int64_t i = begin; i < std::min(begin + distance, end); ++i) {
    of.Prefetch(i);
  }
  // The gradient is dealt out evenly. If it has fewer rows than are updated,
  // some share one, which is read from memory only once.
  int64_t first = begin * of.gradient.count / of.num_rows;
  uint32_t read = 0;
  for (int64_t i = begin; i < end; ++i) {
    if (i + distance < end) of.Prefetch(i + distance);
    const int64_t next = (i + 1) * of.gradient.count / of.num_rows;
    const uint32_t* g = of.gradient[first];
    const int64_t words =
        std::max<int64_t>(1, next - first) * of.gradient.words;
    for (int64_t k = 0; k < words; ++k) read |= g[k];
    first = next;
    // Row by row: the lines of arrays whose sizes are powers of two compete for
    // the same places in the caches.
    for (const Rows& array : of.updated) {
      uint32_t* to = array[of.Row(i)];
      // The last bit of a mantissa keeps numbers finite.
      for (int64_t k = 0; k < array.words; ++k) to[k] ^= 1;
    }
  }
  // The compiler would leave out the reading if nothing came of it.
  [[maybe_unused]] volatile uint32_t result = read;
}

class MemoryFloorOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  // Takes no locks and checks next to nothing: only the benchmark uses it.
  void Compute(OpKernelContext* context) override {
    const Tensor& rows = context->input(1);
    Traffic traffic{Rows(context->input(0)), nullptr, 0, {}};
    traffic.num_rows = traffic.gradient.count;
    tensorflow::OpInputList handles;
    OP_REQUIRES_OK(context, context->input_list("updated", &handles));
    for (const Tensor& handle : handles) {
      tensorflow::core::RefCountPtr<tensorflow::Var> variable;
      OP_REQUIRES_OK(
          context,
          LookupResource(context, handle.scalar<tensorflow::ResourceHandle>()(),
                         &variable));
      OP_REQUIRES(context, variable->tensor()->RefCountIsOne(),
                  absl::FailedPreconditionError("a buffer is shared"));
      traffic.updated.emplace_back(*variable->tensor());
      traffic.num_rows = traffic.updated.back().count;
    }
    if (rows.NumElements() > 0) {
      traffic.rows = rows.flat<int32_t>().data();
      traffic.num_rows = rows.NumElements();
    }
    const int64_t row_bytes = traffic.gradient.words * sizeof(uint32_t) *
                              (1 + 2 * traffic.updated.size());
    context->device()->tensorflow_cpu_worker_threads()->workers->ParallelFor(
        traffic.num_rows,
        tensorflow::thread::ThreadPool::SchedulingParams::Fixed(
            std::max<int64_t>(1, kBlockBytes / row_bytes)),
        [&](int64_t begin, int64_t end) { Move(traffic, begin, end); });
  }
};

REGISTER_OP("TfOpt>MemoryFloor")
    .Input("gradient: T")
    .Input("rows: int32")
    .Input("updated: num_updated * resource")
    .Attr("T: {bfloat16, float16, float}")
    .Attr("num_updated: int >= 0")
    .SetIsStateful()  // Also where it only reads.
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_KERNEL_BUILDER(
    Name("TfOpt>MemoryFloor").Device(tensorflow::DEVICE_CPU), MemoryFloorOp);

}  // namespace
}  // namespace tf_opt
