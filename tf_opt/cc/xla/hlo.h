// Values of a program that XLA compiles, as an arithmetic type: a rule computed
// with them is written into the program. What is known while the program is
// made is computed there and then.
//
// An operation broadcasts a scalar to its other operand's shape.
#ifndef TF_OPT_CC_XLA_HLO_H_
#define TF_OPT_CC_XLA_HLO_H_

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tf_opt/cc/rules/float_bits.h"
#include "tf_opt/cc/rules/power.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/primitive_util.h"
#include "xla/xla_data.pb.h"

namespace tf_opt {

// `operand`, which is a scalar or has the shape of `like`, in that shape.
xla::XlaOp BroadcastTo(xla::XlaOp operand, xla::XlaOp like);

// Makes one scalar of two.
using Combination = std::function<xla::XlaOp(xla::XlaOp, xla::XlaOp)>;

// It as a function of scalars of a type, for reductions and the like.
xla::XlaComputation Combining(xla::XlaBuilder* builder, xla::PrimitiveType type,
                              const Combination& combine);

template <xla::PrimitiveType kType>
class Hlo;

// Whether C++ would convert numbers of these types by itself and lose nothing
// but digits: to floating point.
template <xla::PrimitiveType kFrom, xla::PrimitiveType kTo>
constexpr bool kConvertsImplicitly =
    kFrom != kTo && (kTo == xla::F32 || kTo == xla::F64);

template <xla::PrimitiveType kType>
class Hlo {
 public:
  using Native = xla::primitive_util::NativeTypeOf<kType>;
  using Condition = Hlo<xla::PRED>;

  Hlo() = default;
  template <typename Number,
            typename = std::enable_if_t<std::is_arithmetic<Number>::value>>
  Hlo(Number constant) : constant_(static_cast<Native>(constant)) {}
  explicit Hlo(xla::XlaOp value) : is_constant_(false), value_(value) {}

  template <xla::PrimitiveType kFrom,
            std::enable_if_t<kConvertsImplicitly<kFrom, kType>, int> = 0>
  Hlo(const Hlo<kFrom>& from) {
    Convert(from);
  }
  template <xla::PrimitiveType kFrom,
            std::enable_if_t<
                kFrom != kType && !kConvertsImplicitly<kFrom, kType>, int> = 0>
  explicit Hlo(const Hlo<kFrom>& from) {
    Convert(from);
  }

  // Whether it is known while the program is made, and what it is then.
  bool is_constant() const { return is_constant_; }
  Native constant() const { return constant_; }

  // In the program that is being made.
  xla::XlaOp In(xla::XlaBuilder* builder) const {
    return is_constant_ ? xla::ConstantR0<Native>(builder, constant_) : value_;
  }
  // Null if it is constant.
  xla::XlaBuilder* builder() const {
    return is_constant_ ? nullptr : value_.builder();
  }

  friend Hlo operator+(const Hlo& a, const Hlo& b) {
    return Binary(
        a, b, [](Native x, Native y) { return x + y; },
        [](xla::XlaOp x, xla::XlaOp y) { return xla::Add(x, y); });
  }
  friend Hlo operator-(const Hlo& a, const Hlo& b) {
    return Binary(
        a, b, [](Native x, Native y) { return x - y; },
        [](xla::XlaOp x, xla::XlaOp y) { return xla::Sub(x, y); });
  }
  friend Hlo operator*(const Hlo& a, const Hlo& b) {
    if (a.IsConstantly(1)) return b;
    if (b.IsConstantly(1)) return a;
    return Binary(
        a, b, [](Native x, Native y) { return x * y; },
        [](xla::XlaOp x, xla::XlaOp y) { return xla::Mul(x, y); });
  }
  friend Hlo operator/(const Hlo& a, const Hlo& b) {
    if (b.IsConstantly(1)) return a;
    return Binary(
        a, b, [](Native x, Native y) { return x / y; },
        [](xla::XlaOp x, xla::XlaOp y) { return xla::Div(x, y); });
  }
  friend Hlo operator-(const Hlo& x) {
    return x.is_constant_ ? Hlo(-x.constant_) : Hlo(xla::Neg(x.value_));
  }

  // Of unsigned integers.
  friend Hlo operator&(const Hlo& a, const Hlo& b) {
    return Binary(
        a, b, [](Native x, Native y) { return x & y; },
        [](xla::XlaOp x, xla::XlaOp y) { return xla::And(x, y); });
  }
  friend Hlo operator|(const Hlo& a, const Hlo& b) {
    return Binary(
        a, b, [](Native x, Native y) { return x | y; },
        [](xla::XlaOp x, xla::XlaOp y) { return xla::Or(x, y); });
  }
  friend Hlo operator^(const Hlo& a, const Hlo& b) {
    return Binary(
        a, b, [](Native x, Native y) { return x ^ y; },
        [](xla::XlaOp x, xla::XlaOp y) { return xla::Xor(x, y); });
  }
  friend Hlo operator>>(const Hlo& a, const Hlo& b) {
    return Binary(
        a, b, [](Native x, Native y) { return x >> y; },
        [](xla::XlaOp x, xla::XlaOp y) {
          return xla::ShiftRightLogical(x, y);
        });
  }
  friend Hlo operator<<(const Hlo& a, const Hlo& b) {
    return Binary(
        a, b, [](Native x, Native y) { return x << y; },
        [](xla::XlaOp x, xla::XlaOp y) { return xla::ShiftLeft(x, y); });
  }

  friend Condition operator==(const Hlo& a, const Hlo& b) {
    return Compare(
        a, b, [](Native x, Native y) { return x == y; },
        [](xla::XlaOp x, xla::XlaOp y) { return xla::Eq(x, y); });
  }
  friend Condition operator<(const Hlo& a, const Hlo& b) {
    // Nothing is beyond the infinities.
    if (a.IsInfinite(1) || b.IsInfinite(-1)) return false;
    return Compare(
        a, b, [](Native x, Native y) { return x < y; },
        [](xla::XlaOp x, xla::XlaOp y) { return xla::Lt(x, y); });
  }
  friend Condition operator>(const Hlo& a, const Hlo& b) { return b < a; }
  friend Condition operator<=(const Hlo& a, const Hlo& b) {
    return Compare(
        a, b, [](Native x, Native y) { return x <= y; },
        [](xla::XlaOp x, xla::XlaOp y) { return xla::Le(x, y); });
  }
  friend Condition operator>=(const Hlo& a, const Hlo& b) { return b <= a; }

  // Of conditions; both are computed.
  friend Hlo operator&&(const Hlo& a, const Hlo& b) {
    if (a.is_constant_) return a.constant_ ? b : a;
    if (b.is_constant_) return b.constant_ ? a : b;
    return a & b;
  }
  friend Hlo operator||(const Hlo& a, const Hlo& b) {
    if (a.is_constant_) return a.constant_ ? a : b;
    if (b.is_constant_) return b.constant_ ? b : a;
    return a | b;
  }

  friend Hlo Sqrt(const Hlo& x) {
    return x.is_constant_ ? Hlo(tf_opt::Sqrt(x.constant_))
                          : Hlo(xla::Sqrt(x.value_));
  }
  // Of float64.
  friend Hlo Power(const Hlo& base, const Hlo& exponent) {
    return Binary(
        base, exponent, [](Native x, Native y) { return tf_opt::Power(x, y); },
        [](xla::XlaOp x, xla::XlaOp y) { return xla::Pow(x, y); });
  }
  // A NaN in `b` wins.
  friend Hlo Max(const Hlo& a, const Hlo& b) { return Select(a > b, a, b); }

  // Which NaN an operation gives is not XLA's to say.
  friend Hlo CanonicalNan(const Hlo& x) { return x; }

 private:
  template <xla::PrimitiveType>
  friend class Hlo;

  template <typename Fold, typename Emit>
  static Hlo Binary(const Hlo& a, const Hlo& b, const Fold& fold,
                    const Emit& emit) {
    if (a.is_constant_ && b.is_constant_) {
      return Hlo(static_cast<Native>(fold(a.constant_, b.constant_)));
    }
    xla::XlaBuilder* const builder = BuilderOf(a, b);
    return Hlo(emit(a.In(builder), b.In(builder)));
  }
  template <typename Fold, typename Emit>
  static Condition Compare(const Hlo& a, const Hlo& b, const Fold& fold,
                           const Emit& emit) {
    if (a.is_constant_ && b.is_constant_) return fold(a.constant_, b.constant_);
    xla::XlaBuilder* const builder = BuilderOf(a, b);
    return Condition(emit(a.In(builder), b.In(builder)));
  }
  static xla::XlaBuilder* BuilderOf(const Hlo& a, const Hlo& b) {
    return a.is_constant_ ? b.builder() : a.builder();
  }

  bool IsConstantly(int number) const {
    return is_constant_ && constant_ == static_cast<Native>(number);
  }
  bool IsInfinite(int sign) const {
    using Limits = std::numeric_limits<Native>;
    return Limits::has_infinity && is_constant_ &&
           constant_ == static_cast<Native>(sign) * Limits::infinity();
  }

  template <xla::PrimitiveType kFrom>
  void Convert(const Hlo<kFrom>& from) {
    is_constant_ = from.is_constant_;
    if (is_constant_) {
      constant_ = static_cast<Native>(from.constant_);
    } else {
      value_ = xla::ConvertElementType(from.value_, kType);
    }
  }

  bool is_constant_ = true;
  Native constant_ = {};
  xla::XlaOp value_;
};

using HloBoolean = Hlo<xla::PRED>;

// Whether a condition is known to be this while the program is made.
bool IsConstantly(const HloBoolean& condition, bool value);

using HloFloat = Hlo<xla::F32>;
using HloDouble = Hlo<xla::F64>;

// As rules/scalar_math.h says of the host's.
struct HloNumbers {
  using Real = HloDouble;
  using Integer = Hlo<xla::S64>;
  using Boolean = HloBoolean;
  using Unsigned32 = Hlo<xla::U32>;
  using Unsigned64 = Hlo<xla::U64>;
};
template <xla::PrimitiveType kType>
struct NumbersFor<Hlo<kType>> {
  using type = HloNumbers;
};

// Whether a condition that isn't constant holds for all elements.
HloBoolean HoldsForAll(const HloBoolean& condition);

template <xla::PrimitiveType kType>
Hlo<kType> Select(const HloBoolean& condition, const Hlo<kType>& a,
                  const typename SameType<Hlo<kType>>::type& b) {
  if (condition.is_constant()) return condition.constant() ? a : b;
  xla::XlaBuilder* const builder = condition.builder();
  // One of them may be a scalar, or the condition.
  xla::XlaOp x = a.In(builder), y = b.In(builder);
  x = BroadcastTo(BroadcastTo(x, y), condition.In(builder));
  y = BroadcastTo(y, x);
  return Hlo<kType>(xla::Select(condition.In(builder), x, y));
}

template <typename Body, typename... Changed>
void When(const HloBoolean& condition, const Body& body, Changed*... changed) {
  if (condition.is_constant()) {
    if (condition.constant()) body();
    return;
  }
  const std::tuple<Changed...> before(*changed...);
  body();
  std::apply(
      [&](const Changed&... old) {
        ((*changed = Select(condition, *changed, old)), ...);
      },
      before);
}

inline HloNumbers::Integer WholeNumber(const HloDouble& x) {
  if (x.is_constant()) return WholeNumber(x.constant());
  return HloNumbers::Integer(
      Select(x >= -0x1p53 && x <= 0x1p53, x, HloDouble(0.0)));
}

template <xla::PrimitiveType kType>
HloBoolean IsFinite(const Hlo<kType>& x) {
  if (x.is_constant()) return std::isfinite(x.constant());
  return HloBoolean(xla::IsFinite(x.In(nullptr)));
}

// Of float32, as rules/float_bits.h has it.
inline HloNumbers::Unsigned32 BitsOf(const HloFloat& x) {
  if (x.is_constant()) return BitsOf(x.constant());
  return HloNumbers::Unsigned32(
      xla::BitcastConvertType(x.In(x.builder()), xla::U32));
}
inline HloFloat FloatOf(const HloNumbers::Unsigned32& bits) {
  if (bits.is_constant()) return FloatOf(bits.constant());
  return HloFloat(xla::BitcastConvertType(bits.In(bits.builder()), xla::F32));
}
inline HloNumbers::Unsigned32 Truncated(const HloFloat& x) {
  return HloNumbers::Unsigned32(Hlo<xla::S32>(x));
}

}  // namespace tf_opt

#endif  // TF_OPT_CC_XLA_HLO_H_
