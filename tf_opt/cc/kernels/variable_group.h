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

  // May be called once: whoever reads the group needs no lock afterwards.
  absl::Status Fill(Variables variables) {
    absl::MutexLock lock(&mutex_);
    if (!variables_.empty()) {
      return absl::FailedPreconditionError(
          "`group` has been filled already; make a new one");
    }
    variables_ = std::move(variables);
    return absl::OkStatus();
  }

  // The variables, valid as long as the group is held. Empty before Fill.
  const Variables& variables() const {
    absl::ReaderMutexLock lock(&mutex_);
    return variables_;
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
