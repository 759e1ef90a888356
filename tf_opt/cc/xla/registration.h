// Kernels of ops for what XLA compiles.
#ifndef TF_OPT_CC_XLA_REGISTRATION_H_
#define TF_OPT_CC_XLA_REGISTRATION_H_

#include <functional>
#include <string>

#include "tensorflow/core/framework/op_kernel.h"

namespace tf_opt {

// Registers an op's for CPUs, for all types of variables.
bool RegisterXlaKernel(const std::string& op,
                       const std::function<tensorflow::OpKernel*(
                           tensorflow::OpKernelConstruction*)>& make);

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_REGISTRATION_H_
