// Loads and stores state in a thread of a GPU; state may be stored shorter than
// it is computed.
#ifndef TF_OPT_CC_ENGINES_GPU_GPU_STATE_H_
#define TF_OPT_CC_ENGINES_GPU_GPU_STATE_H_

#include <cstdint>

#include "tf_opt/cc/engines/gpu/gpu_pack.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/random_bits.h"
#include "tf_opt/cc/rules/scalar_math.h"

namespace tf_opt {

// `Convert` widens and narrows 16-bit elements; V is the arithmetic's type.
template <typename Convert, typename V>
class GpuState {
 public:
  // Loads kCount neighbours, which must be aligned.
  template <int kCount>
  TF_OPT_RULE_INLINE static void Load(const StateArray<V>& array, int64_t at,
                                      V (&values)[kCount]) {
    switch (array.type) {
      case StateType::kArithmetic:
        return LoadAs<V>(array, at, values);
      case StateType::kFloat:
        return LoadAs<float>(array, at, values);
      default:
        return LoadAs<BFloat16>(array, at, values);
    }
  }

  // `element` is the number of the first element.
  template <int kCount>
  TF_OPT_RULE_INLINE static void Store(const StateArray<V>& array, int64_t at,
                                       const V (&values)[kCount],
                                       const RoundingBits& bits,
                                       int64_t element) {
    switch (array.type) {
      case StateType::kArithmetic:
        return StoreAs<V>(array, at, values, {}, element);
      case StateType::kFloat:
        return StoreAs<float>(array, at, values, {}, element);
      default:
        return StoreAs<BFloat16>(array, at, values, bits, element);
    }
  }

  // Returns the value after a store to nearest.
  TF_OPT_RULE_INLINE static V Held(StateType type, V value) {
    return type == StateType::kBFloat16 ? V(AsBFloat16(value))
           : type == StateType::kFloat  ? V(static_cast<float>(value))
                                        : value;
  }

  // Returns whether this many neighbours can be loaded at once.
  template <int kCount>
  TF_OPT_RULE_INLINE static bool IsAligned(const StateArray<V>& array) {
    return reinterpret_cast<uintptr_t>(array.data) %
               (kCount * StateSize<V>(array.type)) ==
           0;
  }

 private:
  template <typename E, int kCount>
  TF_OPT_RULE_INLINE static void LoadAs(const StateArray<V>& array, int64_t at,
                                        V (&values)[kCount]) {
    GpuPack<E, kCount> pack;
    pack.Load(static_cast<const E*>(array.data) + at);
    TF_OPT_UNROLL
    for (int j = 0; j < kCount; ++j) {
      values[j] = Convert::Widen(pack.elements[j]);
    }
  }

  template <typename E, int kCount>
  TF_OPT_RULE_INLINE static void StoreAs(const StateArray<V>& array, int64_t at,
                                         const V (&values)[kCount],
                                         const RoundingBits& bits,
                                         int64_t element) {
    GpuPack<E, kCount> pack;
    TF_OPT_UNROLL
    for (int j = 0; j < kCount; ++j) {
      pack.elements[j] = Rounded<E>(values[j], bits, element + j);
    }
    pack.Store(static_cast<E*>(array.data) + at);
  }

  template <typename E>
  TF_OPT_RULE_INLINE static E Rounded(V value, const RoundingBits& bits,
                                      int64_t element) {
    if constexpr (sizeof(E) == sizeof(V)) {
      return value;
    } else if constexpr (sizeof(E) == 2) {
      const float shorter = static_cast<float>(value);
      return bits.at_random
                 ? RoundAtRandom(shorter, RandomBitsOf(bits.key, element), E())
                 : Convert::Narrow(shorter, E());
    } else {
      return static_cast<float>(value);
    }
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_GPU_STATE_H_
