#include "tf_opt/cc/kernels/resource_apply_kernels.h"
#include "tf_opt/cc/rules/asgd.h"

namespace tf_opt {
namespace {

const KernelRegistration<OptimizerOf<Asgd>> registration(
    "TfOpt>ResourceApplyASGD", "TfOpt>ResourceSparseApplyASGD");

}  // namespace
}  // namespace tf_opt
