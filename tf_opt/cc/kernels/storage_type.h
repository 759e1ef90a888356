// TensorFlow's element types in terms of the engines' types.
#ifndef TF_OPT_CC_KERNELS_STORAGE_TYPE_H_
#define TF_OPT_CC_KERNELS_STORAGE_TYPE_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_input.h"

namespace tf_opt {

// Returns use(TypeTag<Element>()) with the engines' type of these elements.
template <typename Use>
absl::Status WithStorageType(tensorflow::DataType type, const Use& use) {
  switch (type) {
    case tensorflow::DT_HALF:
      return use(TypeTag<Half>());
    case tensorflow::DT_BFLOAT16:
      return use(TypeTag<BFloat16>());
    case tensorflow::DT_FLOAT:
      return use(TypeTag<float>());
    case tensorflow::DT_DOUBLE:
      return use(TypeTag<double>());
    default:
      return absl::InternalError("no engine for this type");
  }
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_STORAGE_TYPE_H_
