// A launch of a resource-apply op: a table of arrays and the numbers beside it.
// A running op (resource_apply_launch.h) and a call inside XLA (xla/) fill it;
// the checks are the same for both.
#ifndef TF_OPT_CC_KERNELS_APPLY_LAUNCH_H_
#define TF_OPT_CC_KERNELS_APPLY_LAUNCH_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/kernels/launch_array.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// An input with one number per variable or a single number for all. A launch
// may be a part of an op: then it begins at the op's variable `first`.
struct PerVariable {
  double operator[](int i) const {
    return ReadOnce(numbers + (one_for_all() ? 0 : first + i));
  }
  bool one_for_all() const { return count == 1; }

  const double* numbers = nullptr;  // In the device's memory.
  int64_t count = 0;                // All numbers of the input.
  int64_t first = 0;
};

class ApplyLaunch {
 public:
  // A launch for `size` variables without any array yet. The operands are those
  // of the frame and then `slots`, in the rule's order.
  ApplyLaunch(const std::vector<Operand>& slots, int size);

  int size() const { return size_; }
  const std::vector<Operand>& operands() const { return operands_; }

  // The array of operand k for variable i.
  LaunchArray& array(int k, int i) { return arrays_[k * size_ + i]; }
  const LaunchArray& array(int k, int i) const {
    return arrays_[k * size_ + i];
  }
  bool has(int k) const {
    return k >= 0 && array(k, 0).type != tensorflow::DT_INVALID;
  }

  // Returns whether an operand is one row of a table.
  bool has_table() const { return table_ >= 0; }
  // Returns the name of the scalar input with the row's index.
  const char* row_input() const { return operands_[table_].row_input; }
  // Number of rows of the smallest table in the launch.
  int64_t SmallestTable() const;

  VariableInputs inputs(int i) const {
    return {vectors[0][i], vectors[1][i], vectors[2][i], vectors[3][i]};
  }

  // Number of the operand `since`; `coasting` is the next one. They may be
  // absent.
  int since() const { return since_; }
  // Returns the rows of each table that wait; `since` must be present.
  std::vector<WaitingRows> waiting_rows() const;

  // Checks the types of the arrays against each other.
  absl::Status CheckTypes() const;
  // Checks the row of the table, if there is one, and sets `number` to it.
  absl::Status CheckRow(int64_t* number) const;
  // Checks all variable numbers of the op, also those of its other launches:
  // nothing may be written before every launch is known to be valid.
  absl::Status CheckVariableNumbers() const;

  // Returns whether anything is rounded at random.
  bool UsesRandomBits(const FrameInputs& frame) const;

  // Gets the arrays as the engines take them; a table begins at its first row.
  absl::Status GetArrays(StepArrays* arrays) const;

  // Gradients that are sparse.
  std::vector<Slices> slices;
  // In the order of kPerVariableInputs.
  std::array<PerVariable, 4> vectors;
  // Number of the table's row, in the device's memory.
  const int64_t* row = nullptr;
  // Number of rows that every table of the op has, including those of its other
  // launches.
  int64_t table_rows = 0;

 private:
  StateType StateTypeOf(int operand, int i) const;

  std::vector<Operand> operands_;
  std::vector<LaunchArray> arrays_;
  int size_ = 0;
  int table_ = -1;
  int since_ = -1;
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_APPLY_LAUNCH_H_
