// TensorFlow's tensors as arrays in the device's memory, with elements of the
// engines' types.
#ifndef TF_OPT_CC_KERNELS_LAUNCH_ARRAY_H_
#define TF_OPT_CC_KERNELS_LAUNCH_ARRAY_H_

#include <cstdint>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/engines/step_arrays.h"

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

// Whether a's dimensions from `skipped_of_a` on are b's from `skipped_of_b` on.
// It makes no shape: one that is too large ends the process.
inline bool DimensionsFit(const tensorflow::TensorShape& a, int skipped_of_a,
                          const tensorflow::TensorShape& b, int skipped_of_b) {
  if (a.dims() - skipped_of_a != b.dims() - skipped_of_b) return false;
  for (int k = skipped_of_b; k < b.dims(); ++k) {
    if (a.dim_size(k - skipped_of_b + skipped_of_a) != b.dim_size(k)) {
      return false;
    }
  }
  return true;
}

// Type of the arithmetic on variables of type `variable`.
inline tensorflow::DataType ArithmeticType(tensorflow::DataType variable) {
  return variable == tensorflow::DT_DOUBLE ? tensorflow::DT_DOUBLE
                                           : tensorflow::DT_FLOAT;
}

// Kernels are registered for no other types.
inline ElementType ElementTypeOf(tensorflow::DataType type) {
  switch (type) {
    case tensorflow::DT_HALF:
      return ElementType::kHalf;
    case tensorflow::DT_BFLOAT16:
      return ElementType::kBFloat16;
    case tensorflow::DT_FLOAT:
      return ElementType::kFloat;
    default:
      return ElementType::kDouble;
  }
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_LAUNCH_ARRAY_H_
