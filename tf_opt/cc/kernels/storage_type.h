// TensorFlow's element types in terms of the engines' types.
#ifndef TF_OPT_CC_KERNELS_STORAGE_TYPE_H_
#define TF_OPT_CC_KERNELS_STORAGE_TYPE_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/engines/step_arrays.h"

namespace tf_opt {

inline absl::Status ElementTypeOf(tensorflow::DataType type,
                                  ElementType* element) {
  switch (type) {
    case tensorflow::DT_HALF:
      *element = ElementType::kHalf;
      return absl::OkStatus();
    case tensorflow::DT_BFLOAT16:
      *element = ElementType::kBFloat16;
      return absl::OkStatus();
    case tensorflow::DT_FLOAT:
      *element = ElementType::kFloat;
      return absl::OkStatus();
    case tensorflow::DT_DOUBLE:
      *element = ElementType::kDouble;
      return absl::OkStatus();
    default:
      return absl::InternalError("no engine for this type");
  }
}

// Returns use(TypeTag<Element>()) with the engines' type of these elements.
template <typename Use>
absl::Status WithStorageType(tensorflow::DataType type, const Use& use) {
  ElementType element = ElementType::kFloat;
  TF_RETURN_IF_ERROR(ElementTypeOf(type, &element));
  return WithElementType(element, use);
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_STORAGE_TYPE_H_
