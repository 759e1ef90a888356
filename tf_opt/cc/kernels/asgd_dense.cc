// ASGD for the dense engines.
#include "tf_opt/cc/engines/dense-inl.h"
#include "tf_opt/cc/rules/asgd.h"

namespace tf_opt {

TF_OPT_INSTANTIATE_RULE(AsgdRule, false);
TF_OPT_INSTANTIATE_RULE(AsgdRule, true);

}  // namespace tf_opt
