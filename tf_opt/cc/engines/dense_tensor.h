// One tensor's share of a dense launch. Plain pointers, so that translation
// units compiled for different instruction sets can share it.
#ifndef TF_OPT_CC_ENGINES_DENSE_TENSOR_H_
#define TF_OPT_CC_ENGINES_DENSE_TENSOR_H_

#include <cstdint>

#include "tf_opt/cc/engines/storage_types.h"

namespace tf_opt {

template <typename T, int kSlots>
struct DenseTensor {
  T* variable;
  const T* gradient;
  ComputeType<T>* slots[kSlots];
  int64_t size;                           // Elements.
  ComputeType<T>* accumulator = nullptr;  // Of gradients; null: there is none.
  ComputeType<T>* average = nullptr;      // Of the variable; likewise.
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_DENSE_TENSOR_H_
