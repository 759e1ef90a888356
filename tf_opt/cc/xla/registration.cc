#include "tf_opt/cc/xla/registration.h"

#include <memory>

#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/types.h"

namespace tf_opt {
namespace {

using Make =
    std::function<tensorflow::OpKernel*(tensorflow::OpKernelConstruction*)>;

class Factory : public tensorflow::kernel_factory::OpKernelFactory {
 public:
  explicit Factory(const Make& make) : make_(make) {}
  tensorflow::OpKernel* Create(
      tensorflow::OpKernelConstruction* context) override {
    return make_(context);
  }

 private:
  const Make make_;
};

}  // namespace

// Not by the macro that registers for XLA: kernels of a library that is loaded
// after the process's first compilation would not be seen.
bool RegisterXlaKernel(const std::string& op, const Make& make) {
  for (const tensorflow::DataType type :
       {tensorflow::DT_HALF, tensorflow::DT_BFLOAT16, tensorflow::DT_FLOAT,
        tensorflow::DT_DOUBLE}) {
    tensorflow::kernel_factory::OpKernelRegistrar(
        tensorflow::KernelDefBuilder(op.c_str())
            .Device("XLA_CPU_JIT")
            .TypeConstraint("T", type)
            .Build(),
        op, std::make_unique<Factory>(make));
  }
  return true;
}

}  // namespace tf_opt
