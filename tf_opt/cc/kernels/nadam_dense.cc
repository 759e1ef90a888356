// NAdam for the dense engines.
#include "tf_opt/cc/engines/dense-inl.h"
#include "tf_opt/cc/rules/nadam.h"

namespace tf_opt {

TF_OPT_INSTANTIATE_RULE(NAdamRule, false);
TF_OPT_INSTANTIATE_RULE(NAdamRule, true);

}  // namespace tf_opt
