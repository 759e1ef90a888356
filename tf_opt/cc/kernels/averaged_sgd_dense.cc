// AveragedSGD for the dense engines.
#include "tf_opt/cc/engines/dense-inl.h"
#include "tf_opt/cc/rules/averaged_sgd.h"

namespace tf_opt {

TF_OPT_INSTANTIATE_RULE(AveragedSgdRule, false);
TF_OPT_INSTANTIATE_RULE(AveragedSgdRule, true);

}  // namespace tf_opt
