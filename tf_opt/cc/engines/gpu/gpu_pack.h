// Memory accesses of all kernels for GPUs.
#ifndef TF_OPT_CC_ENGINES_GPU_GPU_PACK_H_
#define TF_OPT_CC_ENGINES_GPU_GPU_PACK_H_

#include <cstdint>

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

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_GPU_PACK_H_
