// One tensor's share of a launch: where its operands lie. Plain pointers, so
// that translation units compiled for different instruction sets can share it.
#ifndef TF_OPT_CC_ENGINES_DENSE_TENSOR_H_
#define TF_OPT_CC_ENGINES_DENSE_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

template <typename T, int kSlots>
struct DenseTensor {
  static constexpr int kOperands = kFrameOperandCount + kSlots;

  // Of an operand's elements.
  template <int kOperand>
  using Element =
      std::conditional_t<(kOperand < kFrameOperandCount) &&
                             kFrameOperands[kOperand % kFrameOperandCount]
                                     .storage == Storage::kVariable,
                         T, ComputeType<T>>;

  template <int kOperand>
  TF_OPT_RULE_INLINE Element<kOperand>* get() const {
    return static_cast<Element<kOperand>*>(operands[kOperand]);
  }
  TF_OPT_RULE_INLINE T* variable() const { return get<kVariable>(); }
  TF_OPT_RULE_INLINE const T* gradient() const { return get<kGradient>(); }
  TF_OPT_RULE_INLINE ComputeType<T>* accumulator() const {
    return get<kAccumulator>();
  }
  TF_OPT_RULE_INLINE ComputeType<T>* average() const { return get<kAverage>(); }
  template <std::size_t kIndex>
  TF_OPT_RULE_INLINE ComputeType<T>* slot() const {
    return get<kFrameOperandCount + static_cast<int>(kIndex)>();
  }

  // The `count` elements from `begin` on.
  TF_OPT_RULE_INLINE DenseTensor Part(int64_t begin, int64_t count) const {
    DenseTensor part = *this;
    part.size = count;
    part.Advance(begin, std::make_integer_sequence<int, kOperands>());
    return part;
  }

  // Each operand where what it belongs to is the row `row` of a table, if that
  // is what the rule says of it; a table is given by its first row.
  template <typename Rule>
  TF_OPT_RULE_INLINE DenseTensor AtRow(int64_t row) const {
    DenseTensor moved = *this;
    moved.template MoveToRow<Rule>(row, std::make_index_sequence<kSlots>());
    return moved;
  }

  // Null: there is none.
  void* operands[kOperands] = {};
  int64_t size = 0;  // Elements.

 private:
  template <int... kIndices>
  TF_OPT_RULE_INLINE void Advance(int64_t by,
                                  std::integer_sequence<int, kIndices...>) {
    ((operands[kIndices] =
          operands[kIndices] == nullptr ? nullptr : get<kIndices>() + by),
     ...);
  }

  template <typename Rule, std::size_t... kIndices>
  TF_OPT_RULE_INLINE void MoveToRow(int64_t row,
                                    std::index_sequence<kIndices...>) {
    (MoveSlotToRow<Rule, kIndices>(row), ...);
  }

  template <typename Rule, std::size_t kIndex>
  TF_OPT_RULE_INLINE void MoveSlotToRow(int64_t row) {
    constexpr Operand kOperand = Rule::Description::kSlotOperands[kIndex];
    if constexpr (kOperand.is_row_of_table()) {
      operands[kFrameOperandCount + kIndex] = slot<kIndex>() + row * size;
    }
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_DENSE_TENSOR_H_
