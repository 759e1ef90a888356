// Times variants of the dense CPU engine's loop on arrays of some sizes, in
// turns in one process: loop ROUNDS ELEMENTS... Prints CSV: elements, update,
// variant, then the GB/s of each round.
#include "benchmarks/loop.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tf_opt/cc/engines/cpu/loops.h"

namespace tf_opt {
namespace {

struct Variant {
  std::string name;
  std::vector<LoopMode> modes;
  int64_t distance;  // Elements; 0: no prefetching.
  int64_t piece;     // Elements that a thread takes at a time; 0: its share.
};

std::vector<Variant> AllVariants() {
  std::vector<Variant> variants;
  const auto add = [&](const char* target, int block,
                       const std::vector<LoopMode>& modes) {
    const std::string start =
        std::string(target) + ", block " + std::to_string(block);
    for (const int64_t distance : {0, 256, 512, 1024, 2048}) {
      // Other distances only with the block size that the engine has.
      if (block != 128 && distance != 0 && distance != 512) continue;
      variants.push_back({start + ", prefetch " + std::to_string(distance),
                          modes, distance, 0});
    }
    if (block != 128) return;
    variants.push_back({start + ", prefetch 0, pieces", modes, 0, 1 << 16});
    variants.push_back({start + ", prefetch 512, pieces", modes, 512, 1 << 16});
    std::vector<LoopMode> plain = modes;
    for (LoopMode& mode : plain) mode.apply = mode.plain;
    variants.push_back({std::string(target) + ", plain loop", plain, 0, 0});
  };
  const CpuTarget best = SupportedCpuTargets().back();
  if (best >= CpuTarget::kAvx2) {
    add("avx2", 64, avx2_64::LoopModes());
    add("avx2", 128, avx2_128::LoopModes());
    add("avx2", 256, avx2_256::LoopModes());
  }
  if (best >= CpuTarget::kAvx512) {
    add("avx512", 64, avx512_64::LoopModes());
    add("avx512", 128, avx512_128::LoopModes());
    add("avx512", 256, avx512_256::LoopModes());
  }
  return variants;
}

// Small arrays are updated several times, so that threads hardly count.
constexpr int64_t kFewestElements = int64_t{1} << 21;

template <typename Apply>
double Seconds(int threads, int64_t size, int64_t piece, const Apply& apply) {
  using Clock = std::chrono::steady_clock;
  const int64_t times = std::max<int64_t>(1, kFewestElements / size);
  const int64_t share =
      piece != 0 ? piece : (size / threads + 8191) / 8192 * 8192;
  std::atomic<int64_t> next(0);
  const auto work = [&] {
#if defined(__x86_64__)
    // As TensorFlow's threads do: MoveBytes makes subnormal numbers, which some
    // processors compute with fifteen times as slowly.
    constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
    _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#endif
    for (;;) {
      const int64_t begin = next.fetch_add(share);
      if (begin >= size) return;
      for (int64_t i = 0; i < times; ++i) {
        apply(begin, std::min(size, begin + share));
      }
    }
  };
  const auto start = Clock::now();
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return std::chrono::duration<double>(Clock::now() - start).count() / times;
}

void TimeAll(const std::vector<Variant>& variants, std::size_t mode,
             int64_t size, int rounds) {
  const LoopMode& first = variants[0].modes[mode];
  std::vector<void*> arrays(kLoopArrays, nullptr);
  int64_t moved = 0;
  for (std::size_t k = 0; k < first.bytes.size(); ++k) {
    const int64_t bytes = size * first.bytes[k];
    if (bytes == 0) continue;
    arrays[k] = std::aligned_alloc(64, (bytes + 4095) / 64 * 64);
    std::memset(arrays[k], 0, bytes);
    moved += first.bytes[k] * (k == 1 ? 1 : 2);
  }
  std::vector<int> order;
  for (std::size_t v = 0; v < variants.size(); ++v) {
    if (variants[v].modes[mode].apply != nullptr) order.push_back(v);
  }
  order.push_back(-1);  // The memory floor.
  std::vector<std::vector<double>> rates(variants.size() + 1);
  const int threads = std::max(1u, std::thread::hardware_concurrency());
  std::mt19937 random(1);
  for (int round = -2; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const int v : order) {
      double seconds;
      if (v < 0) {
        seconds = Seconds(threads, size, 0, [&](int64_t begin, int64_t end) {
          avx2_128::MoveBytes(arrays.data(), first.bytes, begin, end);
        });
      } else {
        prefetch_distance = variants[v].distance;
        const auto apply = variants[v].modes[mode].apply;
        seconds = Seconds(threads, size, variants[v].piece,
                          [&](int64_t begin, int64_t end) {
                            apply(arrays.data(), size, begin, end);
                          });
      }
      if (round >= 0) rates[v + 1].push_back(moved * size / seconds * 1e-9);
    }
  }
  for (std::size_t v = 0; v < rates.size(); ++v) {
    if (rates[v].empty()) continue;
    std::printf("%lld,\"%s\",\"%s\"", static_cast<long long>(size), first.name,
                v == 0 ? "memory floor" : variants[v - 1].name.c_str());
    for (const double rate : rates[v]) std::printf(",%.2f", rate);
    std::printf("\n");
  }
  for (void* const array : arrays) std::free(array);
}

}  // namespace
}  // namespace tf_opt

int main(int argc, char** argv) {
  const std::vector<tf_opt::Variant> variants = tf_opt::AllVariants();
  if (variants.empty()) return 0;
  for (int i = 2; i < argc; ++i) {
    for (std::size_t mode = 0; mode < variants[0].modes.size(); ++mode) {
      tf_opt::TimeAll(variants, mode, std::atoll(argv[i]), std::atoi(argv[1]));
    }
  }
}
