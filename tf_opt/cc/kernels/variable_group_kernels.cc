#include <utility>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/variable_access.h"
#include "tf_opt/cc/kernels/variable_group.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpInputList;
using ::tensorflow::OpKernelContext;
using ::tensorflow::ResourceHandle;
using ::tensorflow::core::RefCountPtr;

class VariableGroupOp : public Kernel {
 public:
  using Kernel::Kernel;

 private:
  absl::Status Run(OpKernelContext* context) override {
    tensorflow::Tensor* handle = nullptr;
    tensorflow::AllocatorAttributes host;
    host.set_on_host(true);
    TF_RETURN_IF_ERROR(context->allocate_output(0, {}, &handle, host));
    handle->scalar<ResourceHandle>()() = ResourceHandle::MakeRefCountingHandle(
        new VariableGroup(), context->device()->name());
    return absl::OkStatus();
  }
};

class VariableGroupFillOp : public Kernel {
 public:
  using Kernel::Kernel;

 private:
  absl::Status Run(OpKernelContext* context) override {
    OpInputList handles;
    const ResourceHandle* handle;
    TF_RETURN_IF_ERROR(context->input_list("group", &handles));
    TF_RETURN_IF_ERROR(FindHandle(handles, 0, "group", &handle));
    RefCountPtr<VariableGroup> group;
    TF_RETURN_IF_ERROR(LookupResource(context, *handle, &group));
    TF_RETURN_IF_ERROR(context->input_list("variables", &handles));
    VariableGroup::Variables variables(handles.size());
    for (int i = 0; i < handles.size(); ++i) {
      TF_RETURN_IF_ERROR(FindHandle(handles, i, "variables", &handle));
      TF_RETURN_IF_ERROR(LookupResource(context, *handle, &variables[i]));
    }
    return group->Fill(std::move(variables));
  }
};

REGISTER_KERNEL_BUILDER(Name("TfOpt>VariableGroup")
                            .Device(tensorflow::DEVICE_DEFAULT)
                            .HostMemory("group"),
                        VariableGroupOp);
REGISTER_KERNEL_BUILDER(Name("TfOpt>VariableGroupFill")
                            .Device(tensorflow::DEVICE_DEFAULT)
                            .HostMemory("group")
                            .HostMemory("variables"),
                        VariableGroupFillOp);

}  // namespace
}  // namespace tf_opt
