// TfOpt>VariableGroup and TfOpt>VariableGroupFill: the ops and their kernels.
#include <utility>

#include "absl/status/status.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"
#include "tf_opt/cc/kernels/kernel.h"
#include "tf_opt/cc/kernels/variable_access.h"

namespace tf_opt {

// An empty group: one handle that will stand for many variables.
REGISTER_OP("TfOpt>VariableGroup")
    .Output("group: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

// Fills a group, once. It keeps its variables alive, sees whatever is assigned
// to them, and lives as long as its handle.
REGISTER_OP("TfOpt>VariableGroupFill")
    .Input("group: resource")
    .Input("variables: N * resource")
    .Attr("N: int >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

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
