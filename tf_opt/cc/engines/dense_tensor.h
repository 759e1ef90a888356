// One tensor of a launch: the addresses of its operands. Plain pointers, so
// that code compiled for different instruction sets can share it.
#ifndef TF_OPT_CC_ENGINES_DENSE_TENSOR_H_
#define TF_OPT_CC_ENGINES_DENSE_TENSOR_H_

#include <cstdint>

#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

template <typename T>
struct DenseTensor {
  // The arithmetic's type.
  using V = ComputeType<T>;

  TF_OPT_RULE_INLINE T* variable() const {
    return static_cast<T*>(operands[kVariable]);
  }
  TF_OPT_RULE_INLINE const T* gradient() const {
    return static_cast<T*>(operands[kGradient]);
  }
  TF_OPT_RULE_INLINE V* accumulator() const {
    return static_cast<V*>(operands[kAccumulator]);
  }
  TF_OPT_RULE_INLINE V* master_weight() const {
    return static_cast<V*>(operands[kMasterWeight]);
  }
  TF_OPT_RULE_INLINE StateArray<V> average() const { return state(kAverage); }
  TF_OPT_RULE_INLINE StateArray<V> slot(int k) const {
    return state(kFrameOperandCount + k);
  }
  TF_OPT_RULE_INLINE StateArray<V> state(int operand) const {
    return {operands[operand], types[operand]};
  }

  // Size of an operand's element, in bytes.
  TF_OPT_RULE_INLINE int64_t ElementSize(int operand) const {
    return operand == kVariable || operand == kGradient
               ? sizeof(T)
               : StateSize<V>(types[operand]);
  }

  // Returns the `count` elements from `begin` on.
  TF_OPT_RULE_INLINE DenseTensor Part(int64_t begin, int64_t count) const {
    DenseTensor part = *this;
    part.size = count;
    part.first = first + begin;
    for (int k = 0; k < kMostOperands; ++k) part.Move(k, begin);
    return part;
  }

  // Returns the tensor with row `row` of each operand that is a row of a table;
  // tables begin at their first row.
  TF_OPT_RULE_INLINE DenseTensor AtRow(OperandSet tables, int64_t row) const {
    DenseTensor moved = *this;
    for (int k = kFrameOperandCount; k < kMostOperands; ++k) {
      if (Has(tables, k)) moved.Move(k, row * size);
    }
    return moved;
  }

  // Null if absent.
  void* operands[kMostOperands] = {};
  // For operands that are state.
  StateType types[kMostOperands] = {};
  int64_t size = 0;  // Elements.
  // Number of the first element in its variable, for its random bits.
  int64_t first = 0;

 private:
  TF_OPT_RULE_INLINE void Move(int operand, int64_t by) {
    if (operands[operand] == nullptr) return;
    operands[operand] =
        static_cast<char*>(operands[operand]) + by * ElementSize(operand);
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_DENSE_TENSOR_H_
