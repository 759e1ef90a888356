// A launch of a resource-apply op, whoever calls: from arrays and numbers that
// have been found to an engine's arguments.
#ifndef TF_OPT_CC_KERNELS_APPLY_LAUNCH_H_
#define TF_OPT_CC_KERNELS_APPLY_LAUNCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/types.h"
#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/kernels/storage_type.h"
#include "tf_opt/cc/ops/operand_types.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// An input that is one number for each variable or a single one for all. A part
// of a launch begins at its variable `first`.
struct PerVariable {
  double operator[](int i) const {
    return ReadOnce(numbers + (one_for_all ? 0 : first + i));
  }

  const double* numbers = nullptr;  // In the device's memory.
  bool one_for_all = false;
  int64_t first = 0;
  int64_t count = 0;  // Of all numbers, also those before `first`.
};

// T is TensorFlow's type of the variables, or another that stands for it.
// `Found` is derived from this and tells what it has found of operand k, an
// index of operands():
//
//   count(k)        how many arrays there are; 0: it isn't there
//   type(k, i)      the type of the i-th
//   data(k, i)      its elements, in the device's memory
//   elements(k, i)  how many these are
//   first_dimension(k, i)
template <typename Found, typename T>
class ApplyLaunch {
 public:
  using Element = typename StorageTypeOf<T>::type;
  using Slot = ComputeType<Element>;

  const PerVariable& weight_decay() const { return weight_decay_; }
  const PerVariable& learning_rate_factors() const {
    return learning_rate_factors_;
  }
  const PerVariable& gradient_factors() const { return gradient_factors_; }
  const PerVariable& variable_numbers() const { return variable_numbers_; }

  // How many variables there are.
  int size() const { return found().count(kVariable); }

  // How many rows the i-th one has.
  int64_t variable_rows(int i) const {
    return found().first_dimension(kVariable, i);
  }

  bool has_accumulators() const { return found().count(kAccumulator) > 0; }

  // Whether an operand is a row of a table, and of that: its name, the input
  // that says which row, that number in the device's memory, and how many rows
  // all its tables have.
  bool has_table() const { return table_ >= 0; }
  const char* table() const { return operands_[table_].name; }
  const char* row_input() const { return operands_[table_].row_input; }
  const int64_t* row() const { return row_; }
  int64_t rows() const {
    int64_t rows = found().first_dimension(table_, 0);
    for (int i = 1; i < size(); ++i) {
      rows = std::min(rows, found().first_dimension(table_, i));
    }
    return rows;
  }

  // The errors for numbers that don't fit the arrays.
  static absl::Status NoAccumulators() {
    return absl::InvalidArgumentError(
        "`accumulators` must hold one variable for each gradient where "
        "`update` is false, got none");
  }
  absl::Status NoRow(int64_t row) const {
    return absl::InvalidArgumentError(
        absl::StrCat("`", row_input(), "` must be in [0, ", found().rows(),
                     "), the rows of `", table(), "`, got ", row));
  }
  static absl::Status NoVariableNumber(double number) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`variable_numbers` must be integers in [-2^53, 2^53], got ", number));
  }

  // Whether anything is rounded at random.
  template <typename Numbers>
  bool uses_random_bits(const FrameInputsOf<Numbers>& frame) const {
    if (frame.stochastic_rounding && kHas16Bits<Element> &&
        found().count(kMasterWeight) == 0) {
      return true;
    }
    for (int k = 0; k < static_cast<int>(operands_.size()); ++k) {
      if (operands_[k].storage != Storage::kState ||
          operands_[k].rounding != Rounding::kAtRandom) {
        continue;
      }
      for (int i = 0; i < found().count(k); ++i) {
        if (StateTypeOf(k, i) == StateType::kBFloat16) return true;
      }
    }
    return false;
  }

  // A table of which an operand is a row by its first row.
  template <int kSlots>
  std::vector<DenseTensor<Element, kSlots>> Tensors() const {
    std::vector<DenseTensor<Element, kSlots>> tensors(size());
    for (int i = 0; i < size(); ++i) {
      tensors[i].size = found().elements(kVariable, i);
      for (int k = 0; k < tensors[i].kOperands; ++k) {
        if (found().count(k) == 0) continue;
        tensors[i].operands[k] = found().data(k, i);
        tensors[i].types[k] = StateTypeOf(k, i);
      }
    }
    return tensors;
  }

 protected:
  // Those of the frame, then `slots`, in the rule's order.
  void SetOperands(const std::vector<Operand>& slots) {
    operands_.assign(std::begin(kFrameOperands), std::end(kFrameOperands));
    operands_.insert(operands_.end(), slots.begin(), slots.end());
  }

  const std::vector<Operand>& operands() const { return operands_; }

  // The k-th operand is a row of its arrays, that whose number is at `row`.
  void SetTable(int k, const int64_t* row) {
    table_ = k;
    row_ = row;
  }

  // Those slots of a variable that may be stored shorter: there is a loop for
  // each type, not for each mixture.
  absl::Status CheckSlotsHaveOneType() const {
    for (int i = 0; i < size(); ++i) {
      int first = -1;
      for (int k = kFrameOperandCount; k < static_cast<int>(operands_.size());
           ++k) {
        if (operands_[k].storage != Storage::kState) continue;
        if (first < 0) first = k;
        const tensorflow::DataType expected = found().type(first, i);
        const tensorflow::DataType type = found().type(k, i);
        if (type == expected) continue;
        return OtherSlotType(operands_[k].name, i, type, operands_[first].name,
                             expected);
      }
    }
    return absl::OkStatus();
  }

  PerVariable weight_decay_;
  PerVariable learning_rate_factors_;
  PerVariable gradient_factors_;
  PerVariable variable_numbers_;

 private:
  const Found& found() const { return static_cast<const Found&>(*this); }

  // Once checked, how an operand is stored that is state.
  StateType StateTypeOf(int operand, int i) const {
    if (operands_[operand].storage != Storage::kState) {
      return StateType::kArithmetic;
    }
    const tensorflow::DataType type = found().type(operand, i);
    if (type == tensorflow::DT_BFLOAT16) return StateType::kBFloat16;
    return type == ArithmeticType(found().type(kVariable, i))
               ? StateType::kArithmetic
               : StateType::kFloat;
  }

  std::vector<Operand> operands_;
  int table_ = -1;  // Which operand is a row of a table.
  const int64_t* row_ = nullptr;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_APPLY_LAUNCH_H_
