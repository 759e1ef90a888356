// Access to the variables of one launch: they are looked up, checked, locked
// together and made safe to write in place.
#ifndef TF_OPT_CC_KERNELS_VARIABLE_ACCESS_H_
#define TF_OPT_CC_KERNELS_VARIABLE_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/refcount.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/rules/operand.h"

namespace tf_opt {

// Elements of a tensor's row; a scalar is one row.
inline int64_t WidthOf(const tensorflow::Tensor& tensor) {
  // Unsigned: without rows, the product of the other dimensions may overflow.
  uint64_t width = 1;
  for (int k = 1; k < tensor.dims(); ++k) width *= tensor.dim_size(k);
  return static_cast<int64_t>(width);
}

// Whether a's dimensions from `skipped_of_a` on are b's from `skipped_of_b` on.
// It makes no shape: one that is too large ends the process.
inline bool DimensionsFit(const tensorflow::TensorShape& a, int skipped_of_a,
                          const tensorflow::TensorShape& b, int skipped_of_b) {
  if (a.dims() - skipped_of_a != b.dims() - skipped_of_b) return false;
  for (int k = skipped_of_b; k < b.dims(); ++k) {
    if (a.dim_size(k - skipped_of_b + skipped_of_a) != b.dim_size(k)) {
      return false;
    }
  }
  return true;
}

// Type of the arithmetic on variables of type `variable`.
inline tensorflow::DataType ArithmeticType(tensorflow::DataType variable) {
  return variable == tensorflow::DT_DOUBLE ? tensorflow::DT_DOUBLE
                                           : tensorflow::DT_FLOAT;
}

// Kernels are registered for no other types.
inline ElementType ElementTypeOf(tensorflow::DataType type) {
  switch (type) {
    case tensorflow::DT_HALF:
      return ElementType::kHalf;
    case tensorflow::DT_BFLOAT16:
      return ElementType::kBFloat16;
    case tensorflow::DT_FLOAT:
      return ElementType::kFloat;
    default:
      return ElementType::kDouble;
  }
}

// Checks that the list `name` has one `what` for each of `count` gradients; an
// optional one may be empty.
absl::Status CheckLength(const std::string& name, const char* what,
                         bool optional, int count, int64_t found);

// Finds the handle in handles[i] of the input list `name`, which must hold
// exactly one.
absl::Status FindHandle(const tensorflow::OpInputList& handles, int i,
                        const std::string& name,
                        const tensorflow::ResourceHandle** handle);

// A resource that stands for a list of variables: one handle for all.
class VariableGroup : public tensorflow::ResourceBase {
 public:
  using Variables = std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>>;

  // May be called once.
  absl::Status Fill(Variables variables) {
    absl::MutexLock lock(&mutex_);
    if (!variables_.empty()) {
      return absl::FailedPreconditionError(
          "`group` has been filled already; make a new one");
    }
    variables_ = std::move(variables);
    return absl::OkStatus();
  }

  // Returns the variables, valid while the group is held. Empty before Fill,
  // which another thread may call at any time: hence a copy.
  std::vector<tensorflow::Var*> variables() const {
    absl::ReaderMutexLock lock(&mutex_);
    std::vector<tensorflow::Var*> variables;
    variables.reserve(variables_.size());
    for (const auto& variable : variables_) variables.push_back(variable.get());
    return variables;
  }

  std::string DebugString() const override {
    return absl::StrCat("VariableGroup of ", variables().size());
  }

 private:
  mutable absl::Mutex mutex_;
  Variables variables_;
};

// An input list of resource handles with their variables: one handle per
// variable, or one handle of a group.
class VariableList {
 public:
  // Looks up the input list `name` of the running op.
  absl::Status Lookup(tensorflow::OpKernelContext* context,
                      const std::string& name);

  const std::string& name() const { return name_; }
  int size() const { return variables_.size(); }
  tensorflow::Var* operator[](int i) const { return variables_[i]; }

 private:
  std::string name_;
  std::vector<tensorflow::Var*> variables_;
  // These keep the variables alive.
  std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>> held_variables_;
  tensorflow::core::RefCountPtr<VariableGroup> held_group_;
};

// Locks on all variables of some lists, as long as it lives.
class ScopedVariableLocks {
 public:
  ScopedVariableLocks() = default;
  ~ScopedVariableLocks();
  ScopedVariableLocks(const ScopedVariableLocks&) = delete;
  ScopedVariableLocks& operator=(const ScopedVariableLocks&) = delete;

  // Locks in the order of the mutexes' addresses, the order of every op in
  // TensorFlow: two launches that share variables cannot deadlock. A variable
  // that occurs twice is an error, because it would be updated twice. With
  // `shared`, others may read the variables at the same time.
  absl::Status Lock(const std::vector<const VariableList*>& lists,
                    bool shared = false);

 private:
  // Deduced, because TensorFlow deprecates the type's name.
  using Mutex = decltype(std::declval<tensorflow::Var&>().mu());

  std::vector<Mutex> locked_;
  bool shared_ = false;
};

// Checks, under the lock, that list[i], the i-th array of an operand, is
// initialized, and its type, for variables of type `variable`. It must have the
// shape of the i-th array of the list `whose`; if the operand is a row of a
// table, its rows must.
absl::Status CheckVariable(const VariableList& list, int i,
                           const Operand& operand,
                           tensorflow::DataType variable,
                           const tensorflow::TensorShape& shape,
                           const std::string& whose);

// Copies within the device's memory, in the order of the op's work.
using CopyBytes =
    std::function<absl::Status(void* to, const void* from, std::size_t bytes)>;

// Gives the variable a buffer that nothing else shares, under the lock: a
// tensor that was read before the step must not change with it, and variables
// initialized from one constant may share its buffer. A buffer that is not
// shared is not copied, even if the variable was gathered from (copy-on-read
// mode).
absl::Status MakeExclusive(tensorflow::OpKernelContext* context,
                           tensorflow::Var* variable,
                           const CopyBytes& copy_bytes);

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_VARIABLE_ACCESS_H_
