// Times the dense CPU engine's loop on arrays in the second-level cache, on one
// core, and prints CSV: mode, instruction set, cycles per element, elements per
// nanosecond.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tf_opt/cc/engines/cpu/dense_cpu.h"
#include "tf_opt/cc/rules/adam.h"

namespace tf_opt {

// in_cache_floor.cc.
#define TF_OPT_DECLARE_CPU_TARGET(target)             \
  namespace target {                                  \
  void DivideByRoot(const float* v, float* m, int n); \
  }
TF_OPT_FOR_CPU_TARGETS(TF_OPT_DECLARE_CPU_TARGET)

namespace {

constexpr int kElements = 1 << 14;
constexpr int kRepeats = 5000;

// The seconds of the fastest of many calls of run().
template <typename Run>
double Fastest(const Run& run) {
  using Clock = std::chrono::steady_clock;
  double best = 1;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = Clock::now();
    run();
    const std::chrono::duration<double> passed = Clock::now() - start;
    best = std::min(best, passed.count());
  }
  return best;
}

// A chain of additions takes a cycle each. Some processors add constants in no
// time, so the addend is a variable.
double SecondsPerCycle() {
  constexpr int kAdditions = 1 << 14;
  return Fastest([] {
           uint64_t sum = 0, addend = 1;
           asm volatile("" : "+r"(addend));
           for (int i = 0; i < kAdditions; i += 8) {
#pragma GCC unroll 8
             for (int k = 0; k < 8; ++k) {
               sum += addend;
               asm volatile("" : "+r"(sum));
             }
           }
         }) /
         kAdditions;
}

template <typename T>
double StepSeconds(CpuTarget target, StateType state, bool stochastic) {
  using Rule = AdamRule<float, false, false>;
  // Zeros of the widest type are zeros of each.
  std::vector<float> arrays[4];
  TensorOf<T, Rule> tensor;
  tensor.size = kElements;
  const int operands[] = {kVariable, kGradient, kFrameOperandCount,
                          kFrameOperandCount + 1};
  for (int k = 0; k < 4; ++k) {
    arrays[k].resize(kElements);
    tensor.operands[operands[k]] = arrays[k].data();
    tensor.types[operands[k]] = k < 2 ? StateType::kArithmetic : state;
  }
  // 0.5, or in 16 bits twice almost that.
  const uint32_t gradient = 0x3f003f00;
  std::fill_n(reinterpret_cast<uint32_t*>(arrays[1].data()), kElements,
              gradient);
  FrameInputs frame;
  frame.stochastic_rounding = stochastic;
  frame.uses_random_bits = true;
  const FramedRule<Rule> rule(AdamStep({}), frame, {});
  const RuleLoops<T, Rule> loops(target);
  return Fastest([&] { loops.Apply(rule, tensor, 0, kElements); });
}

double FloorSeconds(CpuTarget target) {
  const auto floor = TF_OPT_OF_CPU_TARGET(target, DivideByRoot);
  std::vector<float> v(kElements, 1.0f), m(kElements, 0.5f);
  return Fastest([&] { floor(v.data(), m.data(), kElements); });
}

void PrintAll() {
  constexpr StateType k32 = StateType::kArithmetic, k16 = StateType::kBFloat16;
  for (const CpuTarget target : SupportedCpuTargets()) {
    const auto print = [target](const char* mode, double seconds) {
      std::printf("%s,%s,%.3f,%.3f\n", mode, CpuTargetName(target),
                  seconds / kElements / SecondsPerCycle(),
                  kElements / seconds * 1e-9);
    };
    print("a division and a root in float32", FloorSeconds(target));
    print("float32", StepSeconds<float>(target, k32, false));
    print("float32 + bfloat16 state", StepSeconds<float>(target, k16, false));
    print("bfloat16", StepSeconds<BFloat16>(target, k32, false));
    print("bfloat16 + stochastic rounding",
          StepSeconds<BFloat16>(target, k32, true));
    print("all in bfloat16 + stochastic rounding",
          StepSeconds<BFloat16>(target, k16, true));
  }
}

}  // namespace
}  // namespace tf_opt

int main() { tf_opt::PrintAll(); }
