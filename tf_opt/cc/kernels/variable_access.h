// How a kernel gets at the variables of one launch: looked up, checked, locked
// together, and safe to write in place.
#ifndef TF_OPT_CC_KERNELS_VARIABLE_ACCESS_H_
#define TF_OPT_CC_KERNELS_VARIABLE_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/refcount.h"
#include "tf_opt/cc/kernels/variable_group.h"
#include "tf_opt/cc/ops/operand_types.h"

namespace tf_opt {

// The one handle that a tensor holds; null if it holds none or several.
const tensorflow::ResourceHandle* HandleIn(const tensorflow::Tensor& tensor);

// The error for a tensor that HandleIn finds no handle in.
absl::Status NotOneHandle(const std::string& name,
                          const tensorflow::Tensor& tensor);

// One input list of resource handles, with the variables behind them: those of
// variables, or one of a group.
class VariableList {
 public:
  // Looks up input list `name` of the running op.
  absl::Status Lookup(tensorflow::OpKernelContext* context,
                      const std::string& name);

  const std::string& name() const { return name_; }
  int size() const { return variables_.size(); }
  tensorflow::Var* operator[](int i) const { return variables_[i]; }

 private:
  std::string name_;
  std::vector<tensorflow::Var*> variables_;
  // What keeps them alive.
  std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>> held_variables_;
  std::vector<tensorflow::core::RefCountPtr<VariableGroup>> held_groups_;
};

// Locks on all variables of some lists, for as long as it lives.
class ScopedVariableLocks {
 public:
  ScopedVariableLocks() = default;
  ~ScopedVariableLocks();
  ScopedVariableLocks(const ScopedVariableLocks&) = delete;
  ScopedVariableLocks& operator=(const ScopedVariableLocks&) = delete;

  // Locks in the order of the mutexes' addresses, which is the order of every
  // op in TensorFlow: two launches that share variables cannot deadlock. A
  // variable that occurs twice is an error (it would be updated twice). With
  // `shared` others may read them at the same time, as the owner does.
  absl::Status Lock(const std::vector<const VariableList*>& lists,
                    bool shared = false);

 private:
  // Named through Var: TensorFlow deprecates the type's own name.
  using Mutex = decltype(std::declval<tensorflow::Var&>().mu());

  std::vector<Mutex> locked_;
  bool shared_ = false;
};

// Checks, under the lock, that list[i] is initialized and holds one of `types`
// in `shape` (`whose` says what else has that shape).
absl::Status CheckVariable(const VariableList& list, int i,
                           const TypeList& types,
                           const tensorflow::TensorShape& shape,
                           const std::string& whose);

// Checks the same of a table: [rows] + `shape`.
absl::Status CheckTable(const VariableList& list, int i, const TypeList& types,
                        const tensorflow::TensorShape& shape,
                        const std::string& whose);

// Copies within the memory of the op's device, in the order of its work.
using CopyBytes =
    std::function<absl::Status(void* to, const void* from, std::size_t bytes)>;

// Makes the variable's buffer its own, under the lock: a tensor that was read
// before the step must not change with it, and variables that start from one
// constant may share its buffer. Where nobody else holds the buffer nothing is
// copied, also if the variable was gathered from (copy-on-read mode).
absl::Status MakeExclusive(tensorflow::OpKernelContext* context,
                           tensorflow::Var* variable,
                           const CopyBytes& copy_bytes);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_VARIABLE_ACCESS_H_
