// A GPU on a machine without one, for tests: the threads of a work run one
// after the other. Slow.
#ifndef TF_OPT_CC_ENGINES_GPU_GPU_EMULATION_INL_H_
#define TF_OPT_CC_ENGINES_GPU_GPU_EMULATION_INL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "tf_opt/cc/engines/gpu/gpu_work.h"
#include "tf_opt/cc/engines/measure.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/scalar_math.h"

#define TF_OPT_CPU_TARGET gpu_emulation
#include "tf_opt/cc/engines/float_conversion-inl.h"
#undef TF_OPT_CPU_TARGET

namespace tf_opt {

struct EmulatedConvert {
  template <typename T>
  static ComputeType<T> Widen(T x) {
    return gpu_emulation::Widen(x);
  }
  template <typename T>
  static T Narrow(ComputeType<T> x, T) {
    return gpu_emulation::Narrow<T>(CanonicalNan(x));
  }
};

class EmulatedDevice {
 public:
  // The order in which threads run. Results must not depend on it. The last two
  // are for the thread sanitizer, which then sees what a GPU's threads of one
  // launch, or of one warp or block, share: half of them, at random, run on
  // another thread of the host.
  enum class Order { kForward, kReversed, kRandom, kTwoAtOnce, kTwoInside };
  static inline Order order = Order::kForward;

  explicit EmulatedDevice(void*) {}

  const char* error() const { return error_; }
  void* stream() const { return nullptr; }
  void Note(const char* error) {
    if (error_ == nullptr) error_ = error;
  }

  template <int kBlocks = 1, typename Work>
  void Run(const Work& work, int64_t blocks) {
    ForAll(blocks * kGpuThreads, [&](int64_t k) {
      work.Run(k / kGpuThreads, static_cast<int>(k % kGpuThreads));
    });
  }

  template <int kBlocks = 1, typename Work>
  void RunWarps(const Work& work, int64_t warps) {
    ForAll(warps, [&](int64_t warp) {
      GpuLanes lanes[kWarpThreads];
      ForEach(kWarpThreads, [&](int64_t t) { lanes[t] = work.AddUp(warp, t); });
      double sums[kLanes];
      bool finite = true;
      for (int t = 0; t < kWarpThreads; ++t) {
        std::copy_n(lanes[t].sums, kLanesPerThread, sums + t * kLanesPerThread);
        finite &= lanes[t].finite;
      }
      const double sum = AddLanes<kLanes>(sums);
      ForEach(kWarpThreads, [&](int64_t t) {
        lanes[t].finite = finite;
        work.Finish(warp, t, lanes[t], sum);
      });
    });
  }

  template <typename Work>
  void RunStages(const Work& work) {
    using Thread = typename Work::Thread;
    work.Report();
    ForAll(work.parts(), [&](int64_t part) {
      const int64_t found = work.Find(part);
      if (found < 0) return;
      typename Work::Stage stages[2];
      std::memset(stages, 0xff, sizeof(stages));
      std::vector<Thread> threads;
      for (int t = 0; t < kGpuThreads; ++t)
        threads.emplace_back(work, part, found, t);
      ForEach(kGpuThreads, [&](int64_t t) { threads[t].Load(0, &stages[0]); });
      for (int64_t s = 0; s < threads[0].stages(); ++s) {
        ForEach(kGpuThreads, [&](int64_t t) {
          threads[t].Load(s + 1, &stages[(s + 1) % 2]);
          threads[t].Add(s, stages[s % 2]);
        });
      }
      ForEach(kGpuThreads, [&](int64_t t) { threads[t].Finish(); });
    });
  }

  void Clear(void* memory, std::size_t bytes) { std::memset(memory, 0, bytes); }
  void Copy(void* to, const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
  }

  template <typename Number>
  static void AtomicMax(Number* at, Number value) {
    Number now = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (now < value &&
           !__atomic_compare_exchange_n(at, &now, value, /*weak=*/true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
  }
  static void Publish(int* at, int number) {
    __atomic_store_n(at, number, __ATOMIC_RELEASE);
  }

 private:
  // The threads of a launch, or its warps or blocks.
  template <typename Use>
  static void ForAll(int64_t count, const Use& use) {
    if (order == Order::kTwoAtOnce) return InTwoThreads(count, use);
    if (order == Order::kForward || order == Order::kTwoInside) {
      for (int64_t k = 0; k < count; ++k) use(k);
      return;
    }
    std::vector<int64_t> all(count);
    std::iota(all.rbegin(), all.rend(), 0);
    if (order == Order::kRandom) {
      std::shuffle(all.begin(), all.end(), std::minstd_rand(count));
    }
    for (const int64_t k : all) use(k);
  }
  // The threads of one of these.
  template <typename Use>
  static void ForEach(int64_t count, const Use& use) {
    // Not each time: there are many, and starting a thread takes long.
    static int calls = 0;
    if (order == Order::kTwoInside && ++calls % 16 == 0) {
      return InTwoThreads(count, use);
    }
    if (order != Order::kTwoAtOnce) return ForAll(count, use);
    for (int64_t k = 0; k < count; ++k) use(k);
  }

  template <typename Use>
  static void InTwoThreads(int64_t count, const Use& use) {
    const auto run = [&](bool is_other) {
      std::minstd_rand random(count);
      for (int64_t k = 0; k < count; ++k) {
        if ((random() >> 8 & 1) == is_other) use(k);
      }
    };
    std::thread other(run, true);
    run(false);
    other.join();
  }

  const char* error_ = nullptr;
};

using GpuDevice = EmulatedDevice;
using GpuConvert = EmulatedConvert;

}  // namespace tf_opt

#endif  // TF_OPT_CC_ENGINES_GPU_GPU_EMULATION_INL_H_
