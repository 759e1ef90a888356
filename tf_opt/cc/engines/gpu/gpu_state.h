// Loads and stores of a thread of a GPU: neighbours at once; and state, which
// may be stored shorter than it is computed.
#ifndef TF_OPT_CC_ENGINES_GPU_GPU_STATE_H_
#define TF_OPT_CC_ENGINES_GPU_GPU_STATE_H_

#include <cstdint>

#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/random_bits.h"
#include "tf_opt/cc/rules/scalar_math.h"

// Arrays of a thread are registers only where all their indices are constants.
#if defined(__CUDACC__)
#define TF_OPT_UNROLL _Pragma("unroll")
#else
#define TF_OPT_UNROLL
#endif

namespace tf_opt {

// kCount neighbours of an array, loaded and stored at once.
template <typename E, int kCount>
struct GpuPack {
  struct alignas(sizeof(E) * kCount) Vector {
    uint32_t words[sizeof(E) * kCount / sizeof(uint32_t)];
  };

  union {
    E elements[kCount];
    Vector vector;
  };

  TF_OPT_RULE_INLINE void Load(const E* from) {
    vector = *reinterpret_cast<const Vector*>(from);
  }
  TF_OPT_RULE_INLINE void Store(E* to) const {
    *reinterpret_cast<Vector*>(to) = vector;
  }
  TF_OPT_RULE_INLINE static bool IsAligned(const E* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % sizeof(Vector) == 0;
  }
};

template <typename E>
struct GpuPack<E, 1> {
  TF_OPT_RULE_INLINE void Load(const E* from) { elements[0] = *from; }
  TF_OPT_RULE_INLINE void Store(E* to) const { *to = elements[0]; }

  E elements[1];
};

// V is the arithmetic's type.
template <typename V>
class GpuState {
 public:
  // Loads kCount neighbours, which must be aligned.
  template <int kCount>
  TF_OPT_RULE_INLINE static void Load(const StepArray& array, int64_t at,
                                      V (&values)[kCount]) {
    WithZero(array.type, [&](auto zero) {
      using E = decltype(zero);
      GpuPack<E, kCount> pack;
      pack.Load(static_cast<const E*>(array.data) + at);
      TF_OPT_UNROLL
      for (int j = 0; j < kCount; ++j) {
        values[j] = GpuConvert::Widen(pack.elements[j]);
      }
    });
  }

  // `element` is the number of the first element.
  template <int kCount>
  TF_OPT_RULE_INLINE static void Store(const StepArray& array, int64_t at,
                                       const V (&values)[kCount],
                                       const RoundingBits& bits,
                                       int64_t element) {
    WithZero(array.type, [&](auto zero) {
      using E = decltype(zero);
      GpuPack<E, kCount> pack;
      TF_OPT_UNROLL
      for (int j = 0; j < kCount; ++j) {
        pack.elements[j] = Rounded<E>(values[j], bits, element + j);
      }
      pack.Store(static_cast<E*>(array.data) + at);
    });
  }

  // Returns the value after a store to nearest.
  TF_OPT_RULE_INLINE static V Held(StateType type, V value) {
    return type == StateType::kBFloat16 ? V(AsBFloat16(value))
           : type == StateType::kFloat  ? V(static_cast<float>(value))
                                        : value;
  }

 private:
  // Calls use(zero) with a zero of the type in which state is stored.
  template <typename Use>
  TF_OPT_RULE_INLINE static void WithZero(StateType type, const Use& use) {
    switch (type) {
      case StateType::kArithmetic:
        return use(V());
      case StateType::kFloat:
        return use(float());
      default:
        return use(BFloat16());
    }
  }

  template <typename E>
  TF_OPT_RULE_INLINE static E Rounded(V value, const RoundingBits& bits,
                                      int64_t element) {
    if constexpr (sizeof(E) == sizeof(V)) {
      return value;
    } else {
      // Which NaN a conversion makes depends on the GPU.
      const float shorter = CanonicalNan(static_cast<float>(value));
      if constexpr (sizeof(E) == sizeof(float)) {
        return shorter;
      } else {
        return bits.at_random
                   ? RoundAtRandom(shorter, RandomBitsOf(bits.key, element),
                                   E())
                   : GpuConvert::Narrow(shorter, E());
      }
    }
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_GPU_STATE_H_
