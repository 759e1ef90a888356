// Numbers rounded to elements of 16 bits by their random bits.
#ifndef TF_OPT_CC_ENGINES_STOCHASTIC_ROUNDING_H_
#define TF_OPT_CC_ENGINES_STOCHASTIC_ROUNDING_H_

#include <cstdint>

#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/random_bits.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

TF_OPT_RULE_INLINE BFloat16 RoundAtRandom(float value, uint32_t random,
                                          BFloat16) {
  return {static_cast<uint16_t>(BFloat16AtRandom(value, random))};
}

TF_OPT_RULE_INLINE Half RoundAtRandom(float value, uint32_t random, Half) {
  return {static_cast<uint16_t>(HalfAtRandom(value, random))};
}

// What is stored as it is.
template <typename V, typename Random>
TF_OPT_RULE_INLINE V RoundAtRandom(V value, Random, V) {
  return value;
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_STOCHASTIC_ROUNDING_H_
