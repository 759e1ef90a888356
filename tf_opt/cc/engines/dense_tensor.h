// One tensor of a launch: the addresses of its operands. Plain pointers, so
// that code compiled for different instruction sets can share it.
#ifndef TF_OPT_CC_ENGINES_DENSE_TENSOR_H_
#define TF_OPT_CC_ENGINES_DENSE_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// What a row-wise rule needs of a tensor.
template <typename V, bool kRowWise>
struct RowStates {
  V* row_states = nullptr;  // A number for each row of the variable.
  int64_t width = 1;        // Elements of a row.
};
// Others have no room for it in the arguments of a GPU's kernels.
template <typename V>
struct RowStates<V, false> {};

template <typename T, int kSlots, bool kRowWise = false>
struct DenseTensor : RowStates<ComputeType<T>, kRowWise> {
  static constexpr int kOperands = kFrameOperandCount + kSlots;

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
  TF_OPT_RULE_INLINE StateArray<V> average() const { return state<kAverage>(); }
  template <std::size_t kIndex>
  TF_OPT_RULE_INLINE StateArray<V> slot() const {
    return state<kFrameOperandCount + static_cast<int>(kIndex)>();
  }
  template <int kOperand>
  TF_OPT_RULE_INLINE StateArray<V> state() const {
    return {operands[kOperand], types[kOperand]};
  }

  // The number of the row in which this part of a variable begins.
  TF_OPT_RULE_INLINE V* row_state() const {
    return this->row_states + first / this->width;
  }

  // Type of the slots that may be stored shorter than they are computed: the
  // same for all.
  TF_OPT_RULE_INLINE StateType slot_type() const {
    StateType type = StateType::kArithmetic;
    for (int k = kFrameOperandCount; k < kOperands; ++k) {
      if (types[k] != StateType::kArithmetic) type = types[k];
    }
    return type;
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
    part.Advance(begin, std::make_integer_sequence<int, kOperands>());
    return part;
  }

  // Returns the tensor with row `row` of each operand that the rule declares a
  // row of a table; tables begin at their first row.
  template <typename Rule>
  TF_OPT_RULE_INLINE DenseTensor AtRow(int64_t row) const {
    DenseTensor moved = *this;
    moved.template MoveToRow<Rule>(row, std::make_index_sequence<kSlots>());
    return moved;
  }

  // Null if absent.
  void* operands[kOperands] = {};
  // For operands that are state.
  StateType types[kOperands] = {};
  int64_t size = 0;  // Elements.
  // Number of the first element in its variable, for its random bits.
  int64_t first = 0;

 private:
  template <int... kIndices>
  TF_OPT_RULE_INLINE void Advance(int64_t by,
                                  std::integer_sequence<int, kIndices...>) {
    (Move(kIndices, by), ...);
  }

  TF_OPT_RULE_INLINE void Move(int operand, int64_t by) {
    if (operands[operand] == nullptr) return;
    operands[operand] =
        static_cast<char*>(operands[operand]) + by * ElementSize(operand);
  }

  template <typename Rule, std::size_t... kIndices>
  TF_OPT_RULE_INLINE void MoveToRow([[maybe_unused]] int64_t row,
                                    std::index_sequence<kIndices...>) {
    (MoveSlotToRow<Rule, kIndices>(row), ...);
  }

  template <typename Rule, std::size_t kIndex>
  TF_OPT_RULE_INLINE void MoveSlotToRow(int64_t row) {
    constexpr Operand kOperand = kSlotsOf<Rule>[kIndex];
    if constexpr (kOperand.is_row_of_table()) {
      Move(kFrameOperandCount + static_cast<int>(kIndex), row * size);
    }
  }
};

template <typename T, typename Rule>
using TensorOf = DenseTensor<T, Rule::kSlots, Rule::kRowWise>;

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_DENSE_TENSOR_H_
