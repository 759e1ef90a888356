// The launch of a running resource-apply op: a table of arrays and the numbers
// beside it, and what runs it on a device.
#ifndef TF_OPT_CC_KERNELS_APPLY_LAUNCH_H_
#define TF_OPT_CC_KERNELS_APPLY_LAUNCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/kernels/apply_attributes.h"
#include "tf_opt/cc/kernels/launch_array.h"
#include "tf_opt/cc/kernels/slices.h"
#include "tf_opt/cc/kernels/variable_access.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_input.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {

// Its variables are locked as long as it lives.
class ApplyLaunch {
 public:
  // A launch for `size` variables without any array yet. The operands are those
  // of the frame and then `slots`, in the rule's order.
  ApplyLaunch(const std::vector<Operand>& slots, int size);

  // Finds the numbers beside the arrays: `vectors` and `row`.
  absl::Status FindVectors(tensorflow::OpKernelContext* context);

  // Looks up, locks and checks all variables and makes them safe to write.
  // After an error nothing has been written and nothing may be launched.
  // `updates` is false if the step is known only to accumulate. Reads only the
  // host's memory, whatever the op's device.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       const SliceAttributes& attributes, bool updates,
                       const CopyBytes& copy_bytes);

  int size() const { return size_; }

  // The array of operand k for variable i.
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
  // Number of rows of the smallest table.
  int64_t TableRows() const;

  // Returns whether rows of tables wait.
  bool waits() const { return has(since_); }
  // Returns the rows of each table that wait, if rows of tables do.
  std::vector<WaitingRows> waiting_rows() const;

  // Checks the row of the table, if there is one, and sets `number` to it.
  absl::Status CheckRow(int64_t* number) const;

  // Returns whether anything is rounded at random.
  bool UsesRandomBits(const FrameInputs& frame) const;

  // Returns the arrays as the engines take them; a table begins at its first
  // row.
  StepArrays GetArrays() const;

  // Gradients that are sparse.
  std::vector<Slices> slices;
  VariableVectors vectors;
  // Number of the table's row, in the device's memory.
  const int64_t* row = nullptr;

 private:
  LaunchArray& array(int k, int i) { return arrays_[k * size_ + i]; }
  absl::Status LockVariables(tensorflow::OpKernelContext* context);
  // Checks all variables and finds the gradients.
  absl::Status FindGradients(tensorflow::OpKernelContext* context,
                             const SliceAttributes& attributes);
  bool IsWrittenWithoutUpdate(int operand) const;
  // Checks the types of the arrays against each other.
  absl::Status CheckTypes() const;
  StateType StateTypeOf(int operand, int i) const;

  std::vector<Operand> operands_;
  std::vector<LaunchArray> arrays_;
  int size_ = 0;
  int table_ = -1;
  // Number of the operand `since`; `coasting` is the next one.
  int since_ = -1;
  std::vector<VariableList> lists_;  // One per operand; empty if absent.
  // Last, so that it unlocks before the variables are released.
  ScopedVariableLocks locks_;
};

// Reads the seed, which is on the host.
absl::Status ReadSeed(tensorflow::OpKernelContext* context, int64_t* seed);

// Applies the rule, framed, to all variables of an op on a CPU. After an error
// nothing has been written. launch_on_cpu.cc defines it.
absl::Status LaunchOnCpu(tensorflow::OpKernelContext* context,
                         const ApplyAttributes& attributes);

// The same on a GPU, for dense gradients. Only handles and the seed are on the
// host: a step's other numbers stay in device memory, so that a step never
// waits. launch_on_gpu.cc defines it.
absl::Status LaunchOnGpu(tensorflow::OpKernelContext* context,
                         const ApplyAttributes& attributes);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_APPLY_LAUNCH_H_
