// Elements as a program that XLA compiles stores them, for FramedElement: how
// they are widened, rounded, and read and written where they are state.
#ifndef TF_OPT_CC_XLA_HLO_ELEMENT_H_
#define TF_OPT_CC_XLA_HLO_ELEMENT_H_

#include <cstdint>

#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/random_bits.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/xla/hlo.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/xla_data.pb.h"

namespace tf_opt {

using HloHalf = Hlo<xla::F16>;
using HloBFloat16 = Hlo<xla::BF16>;

template <xla::PrimitiveType kType>
constexpr bool kHas16Bits<Hlo<kType>> = kType == xla::F16 || kType == xla::BF16;

template <xla::PrimitiveType kType>
struct ComputeTypeOf<Hlo<kType>> {
  using type = Hlo<kType == xla::F64 ? xla::F64 : xla::F32>;
};

template <xla::PrimitiveType kType>
HloBoolean HaveSameValue(const Hlo<kType>& a, const Hlo<kType>& b) {
  return a == b;
}

// Elements of 16 bits from their bits.
template <xla::PrimitiveType kType>
Hlo<kType> ElementOf(const HloNumbers::Unsigned32& bits) {
  return Hlo<kType>(xla::BitcastConvertType(
      xla::ConvertElementType(bits.In(bits.builder()), xla::U16), kType));
}

// A NaN must not be carried into an infinity.
inline HloFloat OneNan(const HloFloat& x) {
  return Select(x == x, x, __builtin_nanf(""));
}
inline HloBFloat16 RoundAtRandom(const HloFloat& value,
                                 const HloNumbers::Unsigned32& random,
                                 HloBFloat16) {
  return ElementOf<xla::BF16>(BFloat16AtRandom(OneNan(value), random));
}
inline HloHalf RoundAtRandom(const HloFloat& value,
                             const HloNumbers::Unsigned32& random, HloHalf) {
  return ElementOf<xla::F16>(HalfAtRandom(OneNan(value), random));
}

struct HloConvert {
  template <xla::PrimitiveType kType>
  static ComputeType<Hlo<kType>> Widen(const Hlo<kType>& element) {
    return ComputeType<Hlo<kType>>(element);
  }

  // To nearest. By their bits: XLA may leave out a conversion that is undone,
  // and takes subnormal numbers for zero where it reduces the precision.
  template <typename V>
  static V Narrow(const V& value, V) {
    return value;
  }
  static HloBFloat16 Narrow(const HloFloat& value, HloBFloat16) {
    return ElementOf<xla::BF16>(BFloat16Nearest(value));
  }
  static HloHalf Narrow(const HloFloat& value, HloHalf) {
    return ElementOf<xla::F16>(HalfNearest(value));
  }
};

// An array of state is where a program's value is kept.
template <typename V>
class HloState {
 public:
  using Convert = HloConvert;

  static V Read(const StateArray<V>& array, int64_t) {
    const xla::XlaOp value = *static_cast<const xla::XlaOp*>(array.data);
    switch (array.type) {
      case StateType::kArithmetic:
        return V(value);
      case StateType::kFloat:
        return As<V>(HloFloat(value));
      default:
        return As<V>(HloBFloat16(value));
    }
  }

  // `random_key` is null if it is rounded to nearest.
  template <typename Key, typename Integer>
  static void Write(const StateArray<V>& array, int64_t, const V& value,
                    const Key* random_key, const Integer& element) {
    auto* const to = static_cast<xla::XlaOp*>(array.data);
    xla::XlaBuilder* const builder = to->builder();
    const xla::XlaOp before = *to;
    if (array.type == StateType::kArithmetic) {
      *to = value.In(builder);
    } else if (array.type == StateType::kFloat) {
      *to = As<HloFloat>(value).In(builder);
    } else {
      const HloFloat shorter = As<HloFloat>(value);
      *to = (random_key == nullptr
                 ? Convert::Narrow(shorter, HloBFloat16())
                 : RoundAtRandom(shorter, RandomBitsOf(*random_key, element),
                                 HloBFloat16()))
                .In(builder);
    }
    *to = BroadcastTo(*to, before);
  }

  // What is there if a value is stored to nearest.
  static V Held(StateType type, const V& value) {
    switch (type) {
      case StateType::kArithmetic:
        return value;
      case StateType::kFloat:
        return As<V>(As<HloFloat>(value));
      default:
        return As<V>(FloatOf(BFloat16Nearest(As<HloFloat>(value)) << 16));
    }
  }

 private:
  // Also where it is one already.
  template <typename To, typename From>
  static To As(const From& value) {
    return To(value);
  }
};

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_HLO_ELEMENT_H_
