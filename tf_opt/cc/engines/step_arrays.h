// A step and its arrays: without their types, as a framework passes them, and
// the arrays of each variable with types, as the engines take them.
#ifndef TF_OPT_CC_ENGINES_STEP_ARRAYS_H_
#define TF_OPT_CC_ENGINES_STEP_ARRAYS_H_

#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Type of a variable's elements.
enum class ElementType { kHalf, kBFloat16, kFloat, kDouble };

// Calls use(TypeTag<T>()) with the type and returns the result.
template <typename Use>
auto WithElementType(ElementType type, const Use& use) {
  switch (type) {
    case ElementType::kHalf:
      return use(TypeTag<Half>());
    case ElementType::kBFloat16:
      return use(TypeTag<BFloat16>());
    case ElementType::kFloat:
      return use(TypeTag<float>());
    default:
      return use(TypeTag<double>());
  }
}

// One variable of a step: the addresses of its operands. Plain pointers, so
// that code compiled for different instruction sets can share it.
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
  TF_OPT_RULE_INLINE StepArray average() const { return state(kAverage); }
  TF_OPT_RULE_INLINE StepArray slot(int k) const {
    return state(kFrameOperandCount + k);
  }
  TF_OPT_RULE_INLINE StepArray state(int operand) const {
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

  // Returns the tensor with layer `layer` of each stacked operand; these begin
  // at their first layer.
  TF_OPT_RULE_INLINE DenseTensor AtLayer(OperandSet stacked,
                                         int64_t layer) const {
    DenseTensor moved = *this;
    for (int k = kFrameOperandCount; k < kMostOperands; ++k) {
      if (Has(stacked, k)) moved.Move(k, layer * size);
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

struct StepArrays {
  // Number of variables.
  int count() const { return static_cast<int>(sizes.size()); }

  // The arrays of each variable: the frame's and those of `slots` slots.
  template <typename T>
  std::vector<DenseTensor<T>> Tensors(int slots) const {
    std::vector<DenseTensor<T>> tensors(sizes.size());
    for (int i = 0; i < count(); ++i) {
      tensors[i].size = sizes[i];
      for (int k = 0; k < kFrameOperandCount + slots; ++k) {
        const StepArray& array = arrays[k * count() + i];
        tensors[i].operands[k] = array.data;
        tensors[i].types[k] = array.type;
      }
    }
    return tensors;
  }

  // The array of variable i that is the k-th behind the frame's: of a slot, or
  // of what follows the rule's slots.
  void* Slot(int k, int i) const {
    return arrays[(kFrameOperandCount + k) * count() + i].data;
  }

  ElementType element = ElementType::kFloat;
  std::vector<int64_t> sizes;   // Elements of each variable.
  std::vector<int64_t> widths;  // Elements of a row.
  // The array of operand k for variable i is at k * count() + i.
  std::vector<StepArray> arrays;
};

// A gradient of some rows of a table, without its types.
struct TableSlices {
  TF_OPT_RULE_INLINE int64_t entries() const { return count + more_count; }

  // The row of an entry: first come those with values.
  TF_OPT_RULE_INLINE int64_t IdOf(int64_t entry) const {
    const bool has_values = entry < count;
    const void* const from = has_values ? ids : more_ids;
    const int64_t at = has_values ? entry : entry - count;
    return wide_ids ? static_cast<const int64_t*>(from)[at]
                    : static_cast<const int32_t*>(from)[at];
  }
  // Writes a row to other ids of the same type.
  TF_OPT_RULE_INLINE void WriteId(int64_t row, int64_t at, void* to) const {
    if (wide_ids) {
      static_cast<int64_t*>(to)[at] = row;
    } else {
      static_cast<int32_t*>(to)[at] = static_cast<int32_t>(row);
    }
  }

  // On a GPU, an id of no row, which is no error: ops that merge slices fill up
  // with it. (Not the greatest number, nor is the next one the least: casts
  // make those of NaNs.)
  TF_OPT_HOST_DEVICE int64_t unused() const { return MostId() - 1; }
  // A bad id that the host was told of: these ops fill up with it if an id is
  // bad, so that what takes their results writes nothing.
  TF_OPT_HOST_DEVICE int64_t refused() const { return -MostId(); }
  TF_OPT_HOST_DEVICE int64_t MostId() const {
    return wide_ids ? INT64_MAX : INT32_MAX;
  }

  const void* values = nullptr;  // A row for each of ...
  const void* ids = nullptr;     // ... these rows of the table.
  int64_t count = 0;
  const void* more_ids = nullptr;  // Rows that occur without values.
  int64_t more_count = 0;
  bool wide_ids = false;  // Rows are int64_t, not int32_t.
  int64_t rows = 0;       // Of the table.
  int64_t width = 1;      // Elements of a row.
  int64_t capacity = 0;   // Missed steps that there is room for.
  // Results of MergeSlicesGpu, with room for all entries.
  void* merged_ids = nullptr;
  void* merged_values = nullptr;
};

// How rows of tables are updated.
struct RowOptions {
  bool sparse = false;  // Gradients are of some rows.
  bool lazy = false;    // Only rows that occur.
  bool waits = false;   // The other rows wait.
};

// For a rule with a stacked slot: the layer that the step takes.
struct StepLayer {
  const char* input = nullptr;  // The op's.
  int64_t count = 0;            // Of the stacks' layers.
  const int64_t* at = nullptr;  // Its number, in the device's memory.
};

// A step of any optimizer without its types; the engines add what they need.
struct Step {
  // While gradients are accumulated, rows go on waiting.
  bool catches_up() const {
    return rows.waits && (frame.update || !has_accumulators);
  }

  StepArrays arrays;
  int variant = 0;      // See rules/description.h.
  RuleNumbers numbers;  // What the host knows of them, ...
  FrameInputs frame;
  // ... and all, in the device's memory.
  std::vector<const void*> scalars;
  std::vector<const void*> frame_scalars;
  VariableVectors variables;
  StepLayer layer;
  bool has_accumulators = true;
  RowOptions rows;
  std::vector<TableSlices> slices;  // One for each variable, if sparse.
};

// An id of a sparse gradient outside of its table. A GPU tells the host, where
// it can read it without a wait.
struct BadRow {
  int table = 0;            // Its number, from 1 on; 0: there is none.
  bool has_values = false;  // Or it is one of the rows without.
  int64_t row = 0;
  int64_t at = 0;    // Among those with, or without, values.
  int64_t rows = 0;  // Of the table.
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_STEP_ARRAYS_H_
