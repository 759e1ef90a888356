// The arrays of a step without their types, as a framework passes them.
#ifndef TF_OPT_CC_ENGINES_STEP_ARRAYS_H_
#define TF_OPT_CC_ENGINES_STEP_ARRAYS_H_

#include <cstddef>
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

  // The arrays of each variable for a rule; a table begins at its first row.
  template <typename T, typename Rule>
  std::vector<TensorOf<T, Rule>> Tensors() const {
    std::vector<TensorOf<T, Rule>> tensors(sizes.size());
    for (int i = 0; i < count(); ++i) {
      tensors[i].size = sizes[i];
      for (int k = 0; k < tensors[i].kOperands; ++k) {
        const StepArray& array = arrays[k * count() + i];
        tensors[i].operands[k] = array.data;
        tensors[i].types[k] = array.type;
      }
      if constexpr (Rule::kRowWise) {
        const StepArray& states = arrays[tensors[i].kOperands * count() + i];
        tensors[i].row_states = static_cast<ComputeType<T>*>(states.data);
        tensors[i].width = widths[i];
      }
    }
    return tensors;
  }

  ElementType element = ElementType::kFloat;
  std::vector<int64_t> sizes;   // Elements of each variable.
  std::vector<int64_t> widths;  // Elements of a row.
  // The array of operand k for variable i is at k * count() + i.
  std::vector<StepArray> arrays;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_STEP_ARRAYS_H_
