// Measures gradients: for the dense engines.
#include "tf_opt/cc/engines/measure-inl.h"

namespace tf_opt {

TF_OPT_INSTANTIATE_MEASURE(Half);
TF_OPT_INSTANTIATE_MEASURE(BFloat16);
TF_OPT_INSTANTIATE_MEASURE(float);
TF_OPT_INSTANTIATE_MEASURE(double);

}  // namespace tf_opt
