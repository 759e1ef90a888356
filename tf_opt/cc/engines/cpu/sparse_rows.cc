// The rows of sparse gradients, for each instruction set of the CPU engines.
#include "tf_opt/cc/engines/cpu/sparse_cpu_rows-inl.h"

namespace tf_opt {

TF_OPT_INSTANTIATE_SPARSE_ROWS(Half);
TF_OPT_INSTANTIATE_SPARSE_ROWS(BFloat16);
TF_OPT_INSTANTIATE_SPARSE_ROWS(float);
TF_OPT_INSTANTIATE_SPARSE_ROWS(double);

}  // namespace tf_opt
