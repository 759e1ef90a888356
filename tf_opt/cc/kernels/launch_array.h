// Arrays in the device's memory, of a running op or of a call inside XLA.
#ifndef TF_OPT_CC_KERNELS_LAUNCH_ARRAY_H_
#define TF_OPT_CC_KERNELS_LAUNCH_ARRAY_H_

#include <cstddef>
#include <cstdint>

#include "tensorflow/core/framework/tensor.h"
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

// `sizes` are the array's dimensions.
template <typename Sizes>
LaunchArray MakeArray(void* data, tensorflow::DataType type,
                      const Sizes& sizes) {
  // Unsigned: without rows, the product of the other dimensions may overflow.
  uint64_t width = 1;
  for (std::size_t k = 1; k < sizes.size(); ++k) width *= sizes[k];
  return {data, type, sizes.size() > 0 ? sizes[0] : 1,
          static_cast<int64_t>(width)};
}

inline LaunchArray ArrayOf(const tensorflow::Tensor& tensor) {
  return MakeArray(tensor.data(), tensor.dtype(), tensor.shape().dim_sizes());
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_LAUNCH_ARRAY_H_
