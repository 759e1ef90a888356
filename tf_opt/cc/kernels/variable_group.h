// A resource that stands for a list of variables: one handle for all.
#ifndef TF_OPT_CC_KERNELS_VARIABLE_GROUP_H_
#define TF_OPT_CC_KERNELS_VARIABLE_GROUP_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/platform/refcount.h"

namespace tf_opt {

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

}  // namespace tf_opt

#endif  // TF_OPT_CC_KERNELS_VARIABLE_GROUP_H_
