#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tf_opt/cc/kernels/exceptions.h"
#include "tf_opt/cc/kernels/variable_access.h"
#include "tf_opt/cc/kernels/variable_group.h"

namespace tf_opt {
namespace {

using ::tensorflow::OpInputList;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelContext;
using ::tensorflow::ResourceHandle;
using ::tensorflow::core::RefCountPtr;

class VariableGroupOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    tensorflow::Tensor* handle = nullptr;
    tensorflow::AllocatorAttributes host;
    host.set_on_host(true);
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &handle, host));
    handle->scalar<ResourceHandle>()() = ResourceHandle::MakeRefCountingHandle(
        new VariableGroup(), context->device()->name());
  }
};

class VariableGroupFillOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const ResourceHandle* handle = HandleIn(context->input(0));
    OP_REQUIRES(context, handle != nullptr,
                NotOneHandle("group", context->input(0)));
    RefCountPtr<VariableGroup> group;
    OP_REQUIRES_OK(context, LookupResource(context, *handle, &group));
    OpInputList handles;
    OP_REQUIRES_OK(context, context->input_list("variables", &handles));
    VariableGroup::Variables variables(handles.size());
    for (int i = 0; i < handles.size(); ++i) {
      handle = HandleIn(handles[i]);
      OP_REQUIRES(context, handle != nullptr,
                  NotOneHandle(absl::StrCat("variables[", i, "]"), handles[i]));
      OP_REQUIRES_OK(context, LookupResource(context, *handle, &variables[i]));
    }
    OP_REQUIRES_OK(context, group->Fill(std::move(variables)));
  }
};

REGISTER_KERNEL_BUILDER(Name("TfOpt>VariableGroup")
                            .Device(tensorflow::DEVICE_DEFAULT)
                            .HostMemory("group"),
                        Guarded<VariableGroupOp>);
REGISTER_KERNEL_BUILDER(Name("TfOpt>VariableGroupFill")
                            .Device(tensorflow::DEVICE_DEFAULT)
                            .HostMemory("group")
                            .HostMemory("variables"),
                        Guarded<VariableGroupFillOp>);

}  // namespace
}  // namespace tf_opt
