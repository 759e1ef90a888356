// Conversions of 16-bit elements for emulated kernels.
#ifndef TF_OPT_CC_ENGINES_GPU_EMULATED_CONVERT_INL_H_
#define TF_OPT_CC_ENGINES_GPU_EMULATED_CONVERT_INL_H_

#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

#define TF_OPT_CPU_TARGET gpu_emulation
#include "tf_opt/cc/engines/float_conversion-inl.h"
#undef TF_OPT_CPU_TARGET

namespace tf_opt {

struct EmulatedConvert {
  static float Widen(Half x) { return gpu_emulation::ToFloat(x); }
  static float Widen(BFloat16 x) { return gpu_emulation::ToFloat(x); }
  static float Widen(float x) { return x; }
  static double Widen(double x) { return x; }
  static Half Narrow(float x, Half) {
    return gpu_emulation::ToHalf(CanonicalNan(x));
  }
  static BFloat16 Narrow(float x, BFloat16) {
    return gpu_emulation::ToBFloat16(CanonicalNan(x));
  }
  static float Narrow(float x, float) { return CanonicalNan(x); }
  static double Narrow(double x, double) { return CanonicalNan(x); }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_EMULATED_CONVERT_INL_H_
