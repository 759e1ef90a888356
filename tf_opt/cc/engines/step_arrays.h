// The arrays of a step without their types, as a framework passes them.
#ifndef TF_OPT_CC_ENGINES_STEP_ARRAYS_H_
#define TF_OPT_CC_ENGINES_STEP_ARRAYS_H_

#include <cstdint>
#include <vector>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/type_list.h"

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

// Of one operand and variable; absent if null.
struct StepArray {
  void* data = nullptr;
  StateType type = StateType::kArithmetic;  // Of state.
};

struct StepArrays {
  // Number of variables.
  int count() const { return static_cast<int>(sizes.size()); }

  // The arrays of each variable: the frame's and those of `slots` slots. A
  // table begins at its first row.
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

  // The states of a row-wise rule for the rows of variable i, behind its slots.
  void* RowStates(int slots, int i) const {
    return arrays[(kFrameOperandCount + slots) * count() + i].data;
  }

  ElementType element = ElementType::kFloat;
  std::vector<int64_t> sizes;   // Elements of each variable.
  std::vector<int64_t> widths;  // Elements of a row.
  // The array of operand k for variable i is at k * count() + i.
  std::vector<StepArray> arrays;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_STEP_ARRAYS_H_
