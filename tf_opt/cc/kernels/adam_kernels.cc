#include "tf_opt/cc/kernels/adam_optimizer.h"
#include "tf_opt/cc/kernels/resource_apply_kernels.h"

namespace tf_opt {
namespace {

const KernelRegistration<AdamOptimizer> registration(
    "TfOpt>ResourceApplyAdamAmsgrad", "TfOpt>ResourceSparseApplyAdamAmsgrad");

}  // namespace
}  // namespace tf_opt
