// Adam for the dense engines.
#include "tf_opt/cc/engines/dense-inl.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {

TF_OPT_INSTANTIATE_RULE(AdamRule, false, false);
TF_OPT_INSTANTIATE_RULE(AdamRule, false, true);
TF_OPT_INSTANTIATE_RULE(AdamRule, true, false);
TF_OPT_INSTANTIATE_RULE(AdamRule, true, true);

}  // namespace tf_opt
