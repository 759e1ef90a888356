#include "tf_opt/cc/kernels/resource_apply_kernels.h"
#include "tf_opt/cc/rules/nadam.h"

namespace tf_opt {
namespace {

const KernelRegistration<OptimizerOf<NAdam>> registration(
    "TfOpt>ResourceApplyNAdam", "TfOpt>ResourceSparseApplyNAdam");

}  // namespace
}  // namespace tf_opt
