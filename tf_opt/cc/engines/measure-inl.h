// What a file includes that instantiates the measuring of gradients. As
// dense-inl.h it is compiled for each engine.
#ifndef TF_OPT_CC_ENGINES_MEASURE_INL_H_
#define TF_OPT_CC_ENGINES_MEASURE_INL_H_

#include "tf_opt/cc/engines/measure_cpu_tile-inl.h"

#endif  // TF_OPT_CC_ENGINES_MEASURE_INL_H_
