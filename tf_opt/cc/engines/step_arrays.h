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

// Why a step wrote nothing. A GPU tells the host, where it can read it without
// a wait.
struct Refusal {
  enum Kind {
    kNone,
    kScalar,
    kFrameScalar,
    kLayer,
    kNoAccumulators,
    kIndex,
    kAccumulatedRow  // Of those without values.
  };

  int kind = kNone;
  int index = 0;      // Of the scalar among its kind, or of the table.
  double scalar = 0;  // What is out of range.
  int64_t row = 0;    // The row that the table lacks, or the layer.
  int64_t at = 0;     // The row's place among its kind.
  int64_t rows = 0;   // Of the table.
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
  // What is told of an entry of the i-th table, which lacks the row.
  TF_OPT_RULE_INLINE Refusal RefusalOf(int i, int64_t entry) const {
    const int64_t row = IdOf(entry);
    if (entry < count) return {Refusal::kIndex, i, 0, row, entry, rows};
    return {Refusal::kAccumulatedRow, i, 0, row, entry - count, rows};
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
  // Missed steps that there is room for, of each variable whose rows wait.
  std::vector<int64_t> capacities;
};

// Finds the first of these numbers of a struct that is out of its range.
TF_OPT_HOST_DEVICE inline void CheckRanges(const ScalarInput* inputs,
                                           std::size_t count,
                                           const void* numbers,
                                           Refusal::Kind kind,
                                           Refusal* refusal) {
  for (std::size_t k = 0; k < count && refusal->kind == Refusal::kNone; ++k) {
    const double number = inputs[k].Get(numbers);
    if (IsInRange(inputs[k].range, number)) continue;
    refusal->kind = kind;
    refusal->index = static_cast<int>(k);
    refusal->scalar = number;
  }
}

// Checks the layer that a step takes, and whether it may only accumulate.
TF_OPT_HOST_DEVICE inline void CheckLayer(const StepLayer& layers,
                                          int64_t layer, bool may_accumulate,
                                          const FrameInputs& frame,
                                          Refusal* refusal) {
  if (!frame.update && !may_accumulate) {
    refusal->kind = Refusal::kNoAccumulators;
  } else if (layers.at != nullptr && (layer < 0 || layer >= layers.count)) {
    refusal->kind = Refusal::kLayer;
    refusal->row = layer;
  }
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_STEP_ARRAYS_H_
