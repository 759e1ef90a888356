// Arrays in the device's memory.
#ifndef TF_OPT_CC_KERNELS_LAUNCH_ARRAY_H_
#define TF_OPT_CC_KERNELS_LAUNCH_ARRAY_H_

#include <cstdint>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace tf_opt {

// An array as rows; that of a scalar is one row. Absent: no rows and no type.
struct LaunchArray {
  int64_t elements() const { return rows * width; }

  void* data = nullptr;
  tensorflow::DataType type = tensorflow::DT_INVALID;
  int64_t rows = 0;
  int64_t width = 1;  // Elements of a row.
};

inline LaunchArray ArrayOf(const tensorflow::Tensor& tensor) {
  const tensorflow::TensorShape& shape = tensor.shape();
  // Unsigned: without rows, the product of the other dimensions may overflow.
  uint64_t width = 1;
  for (int k = 1; k < shape.dims(); ++k) width *= shape.dim_size(k);
  return {tensor.data(), tensor.dtype(),
          shape.dims() > 0 ? shape.dim_size(0) : 1,
          static_cast<int64_t>(width)};
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_LAUNCH_ARRAY_H_
