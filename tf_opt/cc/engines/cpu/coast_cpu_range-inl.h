// The loop over elements of rows that waited, for one instruction set. Include
// it after dense_cpu_range-inl.h, whose rules hold here, too.
//
// Unlike an update's, this loop is the same for all types that slots are stored
// in: slots are copied into the arithmetic's type and back.
#if !defined(TF_OPT_CPU_TARGET)
#error "TF_OPT_CPU_TARGET must name the target's namespace"
#endif

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tf_opt/cc/engines/dense_tensor.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/coasting.h"
#include "tf_opt/cc/rules/description.h"
#include "tf_opt/cc/rules/operand.h"
#include "tf_opt/cc/rules/scalar_math.h"
#include "tf_opt/cc/rules/step_frame.h"

namespace tf_opt {
namespace TF_OPT_CPU_TARGET {
namespace {

// A block of a slot in the arithmetic's type.
template <typename V>
class SlotBlock {
 public:
  SlotBlock(const StateArray<V>& array, int64_t start, int n)
      : array_(array), start_(start), n_(n), values_(copy_) {
    if (array.type == StateType::kArithmetic) {
      values_ = static_cast<V*>(array.data) + start;
    } else if (array.type == StateType::kFloat) {
      Load(InPlace<V, float>{static_cast<float*>(array.data) + start});
    } else {
      Load(AsBFloat16s<Rounding::kToNearest>(nullptr));
    }
  }

  V* values() { return values_; }

  // `key` is null for rounding to nearest.
  void Store(const RandomKey* key, RandomBlock* random) const {
    if (array_.type == StateType::kFloat) {
      StoreTo(InPlace<V, float>{static_cast<float*>(array_.data) + start_});
    } else if (array_.type == StateType::kBFloat16 && key == nullptr) {
      StoreTo(AsBFloat16s<Rounding::kToNearest>(nullptr));
    } else if (array_.type == StateType::kBFloat16) {
      StreamBlock stream;
      StoreTo(AsBFloat16s<Rounding::kAtRandom>(random->Fill(*key, &stream)));
    }
  }

 private:
  template <Rounding kRounding>
  InBFloat16<V, kRounding> AsBFloat16s(const Bits* random) const {
    return {static_cast<BFloat16*>(array_.data) + start_, random};
  }

  template <typename Array>
  void Load(const Array& array) {
    for (int i = 0; i < n_; ++i) copy_[i] = array.Load(i);
  }

  template <typename Array>
  void StoreTo(const Array& array) const {
    for (int i = 0; i < n_; ++i) array.Store(i, CanonicalNan(copy_[i]));
  }

  StateArray<V> array_;
  int64_t start_;
  int n_;
  V* values_;
  alignas(64) V copy_[kLargestBlock];
};

// Not inlined: it is the same for all types of variables with the arithmetic V.
template <typename Rule, typename V, std::size_t... kIndices,
          typename... Values>
__attribute__((noinline)) void CoastElements(const Coasting<V>& its_coasting,
                                             int n, V* p,
                                             std::index_sequence<kIndices...>,
                                             Values*... slots) {
  const auto coast = [=, coasting = its_coasting](int i) {
    const V direction = Rule::Direction(coasting.epsilon, slots[i]...);
    p[i] = CanonicalNan(coasting.keep * p[i] - coasting.moved * direction);
    ((slots[i] = CanonicalNan(coasting.decays[kIndices] * slots[i])), ...);
  };
  ForElements(n, coast);
}

template <typename T, typename Rule, std::size_t... kIndices>
inline __attribute__((always_inline)) void CoastBlock(
    const FramedRule<Rule>& rule, const Coasting<ComputeType<T>>& coasting,
    const DenseTensor<T, Rule::kSlots>& tensor, int64_t start, int n,
    std::index_sequence<kIndices...> indices) {
  using V = ComputeType<T>;
  static_assert(Rule::kSlots <= kMostCoastingSlots, "no room for the slots");
  const int64_t element = tensor.first + start;
  RandomBlock random(element, n);
  VariableBlock<V, T> variable(tensor, start, n);
  const auto coast = [&](auto&&... slots) __attribute__((always_inline)) {
    CoastElements<Rule>(coasting, n, variable.values(), indices,
                        slots.values()...);
    (slots.Store(rule.template KeyOf<kFrameOperandCount + kIndices>(), &random),
     ...);
  };
  coast(SlotBlock<V>(tensor.template slot<kIndices>(), start, n)...);
  variable.Store(rule.template KeyOf<kVariable>(), element);
}

}  // namespace

template <typename T, typename Rule>
void CoastRange(const FramedRule<Rule>& rule,
                const Coasting<ComputeType<T>>& coasting,
                const DenseTensor<T, Rule::kSlots>& tensor, int64_t begin,
                int64_t end) {
  constexpr int64_t kSize = kBlockSizeOf<T>;
  for (int64_t start = begin; start < end; start += kSize) {
    const int n = static_cast<int>(end - start < kSize ? end - start : kSize);
    CoastBlock<T>(rule, coasting, tensor, start, n,
                  std::make_index_sequence<Rule::kSlots>());
  }
}

}  // namespace TF_OPT_CPU_TARGET
}  // namespace tf_opt
