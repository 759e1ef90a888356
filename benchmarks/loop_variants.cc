// The dense CPU engine's loop with a block size, for an instruction set; and
// the same updates by a plain loop.
#include <type_traits>

#include "benchmarks/loop.h"
#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/cpu/range_loops-inl.h"
#include "tf_opt/cc/engines/cpu/rule_loops-inl.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/lion.h"
#include "tf_opt/cc/rules/nadam.h"
#include "tf_opt/cc/rules/sgd.h"

namespace tf_opt::TF_OPT_CPU_TARGET {
namespace {

using Adam = AdamRule<float, false>;
using AdamAmsgrad = AdamRule<float, true>;
using Momentum = SgdRule<float, true>;
using LionStep = LionRule<float>;

template <typename Rule>
typename Rule::Scalars ScalarsOf() {
  typename Rule::Description::Hyperparameters h;
  h.learning_rate = 1e-3;
  if constexpr (std::is_same<typename Rule::Description, Sgd>::value) {
    h.momentum = 0.9;
  }
  return typename Rule::Scalars(h);
}

template <typename T, typename Rule, StateType kState, bool kMaster,
          bool kAverage, bool kStochastic>
void Apply(void* const* arrays, int64_t size, int64_t begin, int64_t end) {
  DenseTensor<T> tensor;
  tensor.size = size;
  tensor.operands[kVariable] = arrays[0];
  tensor.operands[kGradient] = arrays[1];
  tensor.operands[kMasterWeight] = arrays[2];
  tensor.operands[tf_opt::kAverage] = arrays[3];
  for (int k = 0; k < Rule::kSlots; ++k) {
    tensor.operands[kFrameOperandCount + k] = arrays[4 + k];
    tensor.types[kFrameOperandCount + k] = kState;
  }
  static const CpuRule<ComputeType<T>> rule = [] {
    FrameInputs frame;
    frame.ema_momentum = 0.99;
    frame.stochastic_rounding = kStochastic;
    frame.uses_random_bits = kStochastic;
    return CpuRule<ComputeType<T>>(
        FramedRule<Rule>(ScalarsOf<Rule>(), frame, {}), LoopsOf<Rule>());
  }();
  UpdateRange<T>(rule, {tensor, tensor.gradient() + begin, begin, end});
}

template <typename T, typename Rule, StateType kState = StateType::kArithmetic,
          bool kMaster = false, bool kAverage = false, bool kStochastic = false>
LoopMode Mode(const char* name, ApplyToRange* plain = nullptr) {
  const int state = kState == StateType::kBFloat16 ? 2 : 4;
  LoopMode mode{name,
                {sizeof(T), sizeof(T), kMaster ? 4 : 0, kAverage ? 4 : 0},
                Apply<T, Rule, kState, kMaster, kAverage, kStochastic>,
                plain};
  for (int k = 0; k < Rule::kSlots; ++k) mode.bytes.push_back(state);
  return mode;
}

template <typename Rule>
void Plain(void* const* arrays, int64_t, int64_t begin, int64_t end) {
  static const Rule rule(ScalarsOf<Rule>(), {});
  float* const p = static_cast<float*>(arrays[0]);
  const float* const g = static_cast<float*>(arrays[1]);
  float* const a = static_cast<float*>(arrays[4]);
  float* const b = static_cast<float*>(arrays[5]);
  float* const c = static_cast<float*>(arrays[6]);
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    if constexpr (Rule::kSlots == 1) {
      rule(p[i], g[i], a[i]);
    } else if constexpr (Rule::kSlots == 2) {
      rule(p[i], g[i], a[i], b[i]);
    } else {
      rule(p[i], g[i], a[i], b[i], c[i]);
    }
  }
}

}  // namespace

std::vector<LoopMode> LoopModes() {
  constexpr StateType k32 = StateType::kArithmetic, k16 = StateType::kBFloat16;
  return {
      Mode<float, Adam>("Adam", Plain<Adam>),
      Mode<float, AdamAmsgrad>("AMSGrad", Plain<AdamAmsgrad>),
      Mode<float, Adam, k32, false, true>("Adam, average"),
      Mode<float, AdamAmsgrad, k32, false, true>("AMSGrad, average"),
      Mode<float, Momentum>("SGD", Plain<Momentum>),
      Mode<float, LionStep>("Lion", Plain<LionStep>),
      Mode<float, NAdamRule<float>>("NAdam", Plain<NAdamRule<float>>),
      Mode<BFloat16, Adam>("bfloat16"),
      Mode<BFloat16, Adam, k32, true>("bfloat16, masters"),
      Mode<BFloat16, Adam, k16, false, false, true>("all bfloat16"),
  };
}

void MoveBytes(void* const* arrays, const std::vector<int>& bytes,
               int64_t begin, int64_t end) {
  // As the engine does, a block of one array after the other.
  constexpr int64_t kBlock = 128;
  const auto block = [&](std::size_t k, int64_t start, int64_t count) {
    using Word = uint64_t __attribute__((may_alias));
    Word* const words = reinterpret_cast<Word*>(static_cast<char*>(arrays[k]) +
                                                start * bytes[k]);
    const int64_t n = count * bytes[k] / sizeof(Word);
    uint64_t all = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (k == 1) {
        all |= words[i];
      } else {
        words[i] ^= 1;
      }
    }
    asm volatile("" : : "r"(all));
  };
  for (int64_t start = begin; start < end; start += kBlock) {
    const int64_t count = end - start < kBlock ? end - start : kBlock;
    for (std::size_t k = 0; k < bytes.size(); ++k) {
      if (bytes[k] != 0) block(k, start, count);
    }
  }
}

}  // namespace tf_opt::TF_OPT_CPU_TARGET
