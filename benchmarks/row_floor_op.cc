// The row floor: the traffic of a step that updates some rows of a table.
//
// It reads the gradient of some ids, and reads and writes those rows of some
// arrays: of a lazy Adam step the variable and two moments (AMSGrad: one array
// more). This op does just that with next to no arithmetic, on TensorFlow's
// intra-op threads, for rows that somebody else has sorted, without repeats.
// Given all rows it is the floor of a step that updates the whole table though
// its gradient has few rows.
#include <algorithm>
#include <cstdint>
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
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShapeUtils;

// The traffic that a thread takes at a time.
constexpr int64_t kBlockBytes = 256 * 1024;
// How far ahead memory is asked for the rows of an array.
constexpr int64_t kPrefetchElements = 512;

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

inline void Add(const float* __restrict from, float* __restrict to,
                int64_t size) {
  for (int64_t k = 0; k < size; ++k) to[k] += from[k];
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

REGISTER_OP("TfOpt>RowFloor")
    .Input("gradient: float")
    .Input("rows: int32")
    .Input("updated: num_updated * resource")
    .Attr("num_updated: int >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Moves the bytes of a step that updates some rows, in place.

gradient: What is read, a row for each id.
rows: The rows to update, sorted and without repeats.
updated: Handles of the variables whose rows are read and written; float
  matrices as wide as the gradient.
)doc");

REGISTER_KERNEL_BUILDER(Name("TfOpt>RowFloor").Device(tensorflow::DEVICE_CPU),
                        RowFloorOp);

}  // namespace
}  // namespace tf_opt
