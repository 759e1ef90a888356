// The functions that a rule needs besides + - * /, as overloads for unqualified
// calls; and a bisection.
#ifndef TF_OPT_CC_RULES_SCALAR_MATH_H_
#define TF_OPT_CC_RULES_SCALAR_MATH_H_

#include <math.h>

#include <type_traits>

#if defined(__CUDACC__)
#define TF_OPT_HOST_DEVICE __host__ __device__
#else
#define TF_OPT_HOST_DEVICE
#endif

// Always inlined: rules are compiled for several instruction sets, and the
// linker would merge out-of-line copies, so that a baseline machine could run
// AVX-512 code.
#define TF_OPT_RULE_INLINE \
  TF_OPT_HOST_DEVICE inline __attribute__((always_inline))

namespace tf_opt {

#if defined(__CUDACC__)
TF_OPT_RULE_INLINE float Sqrt(float x) { return sqrtf(x); }
TF_OPT_RULE_INLINE double Sqrt(double x) { return sqrt(x); }
#else
TF_OPT_RULE_INLINE float Sqrt(float x) { return __builtin_sqrtf(x); }
TF_OPT_RULE_INLINE double Sqrt(double x) { return __builtin_sqrt(x); }
#endif

TF_OPT_RULE_INLINE float Abs(float x) { return __builtin_fabsf(x); }
TF_OPT_RULE_INLINE double Abs(double x) { return __builtin_fabs(x); }

// A NaN in `b` wins, so that a NaN second moment is never hidden behind an
// older maximum. These forms compile to one maxps or minps.
TF_OPT_RULE_INLINE float Max(float a, float b) { return a > b ? a : b; }
TF_OPT_RULE_INLINE double Max(double a, double b) { return a > b ? a : b; }
TF_OPT_RULE_INLINE float Min(float a, float b) { return a < b ? a : b; }
TF_OPT_RULE_INLINE double Min(double a, double b) { return a < b ? a : b; }

// Selects one of two values, both of which are computed. V is deduced from the
// first.
template <typename V>
TF_OPT_RULE_INLINE V Select(bool condition, V a,
                            typename std::common_type<V>::type b) {
  return condition ? a : b;
}

// -1, 0 or 1, as tf.sign on a CPU: 0 for zeros of both signs, and a NaN stays
// NaN.
template <typename V>
TF_OPT_RULE_INLINE V Sign(V x) {
  const V sign = Select(x > V(0), V(1), V(0)) - Select(x < V(0), V(1), V(0));
  return Select(x == x, sign, x);
}

// The NaN that results store. Processors differ in which operand's NaN, and
// which sign, an operation returns.
TF_OPT_RULE_INLINE float CanonicalNan(float x) {
  return x == x ? x : __builtin_nanf("");
}
TF_OPT_RULE_INLINE double CanonicalNan(double x) {
  return x == x ? x : __builtin_nan("");
}

// The first number below `count` for which `holds`, as for all that follow it;
// `count` if there is none.
template <typename Number, typename Holds>
TF_OPT_HOST_DEVICE Number FirstWhere(Number count, const Holds& holds) {
  Number low = 0;
  while (low < count) {
    const Number middle = low + (count - low) / 2;
    if (holds(middle)) {
      count = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The same, in fewer steps where that is a small number.
template <typename Number, typename Holds>
TF_OPT_HOST_DEVICE Number GallopWhere(Number count, const Holds& holds) {
  Number end = 1;
  while (end < count && !holds(end)) end *= 2;
  const Number begin = end / 2;
  return begin + FirstWhere((end < count ? end : count) - begin,
                            [&](Number k) { return holds(begin + k); });
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_RULES_SCALAR_MATH_H_
