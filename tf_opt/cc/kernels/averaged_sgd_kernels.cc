#include "tf_opt/cc/kernels/resource_apply_kernels.h"
#include "tf_opt/cc/rules/averaged_sgd.h"

namespace tf_opt {
namespace {

const KernelRegistration<OptimizerOf<AveragedSgd>> registration(
    "TfOpt>ResourceApplyAveragedSGD", "TfOpt>ResourceSparseApplyAveragedSGD");

}  // namespace
}  // namespace tf_opt
