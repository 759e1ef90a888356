// TensorFlow's element types in terms of the engines' types.
#ifndef TF_OPT_CC_KERNELS_STORAGE_TYPE_H_
#define TF_OPT_CC_KERNELS_STORAGE_TYPE_H_

#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/engines/storage_types.h"

namespace tf_opt {

// The engine's name for a TensorFlow element type of the same bits.
template <typename T>
struct StorageTypeOf {
  using type = T;
};
template <>
struct StorageTypeOf<Eigen::half> {
  using type = Half;
};
template <>
struct StorageTypeOf<Eigen::bfloat16> {
  using type = BFloat16;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_STORAGE_TYPE_H_
