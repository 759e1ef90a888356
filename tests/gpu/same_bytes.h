// Comparison of the engines: the CPU's on every instruction set, on threads and
// without, and the GPU's must write the same bytes.
#ifndef TF_OPT_TESTS_GPU_SAME_BYTES_H_
#define TF_OPT_TESTS_GPU_SAME_BYTES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/device.h"
#include "tf_opt/cc/engines/cpu/loops.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/testing/row_gradient.h"
#include "tf_opt/cc/engines/tiles.h"

namespace tf_opt {

constexpr int64_t kBytes = 128 << 20;
inline const DeviceMemory memory =
    DeviceName().empty() ? nullptr : Allocate(kBytes, /*shared=*/true);
inline Arena arena(memory.get(), kBytes);

// How the CPU engine may run.
struct CpuWay {
  CpuTarget target;
  CpuThreads threads;
};

// Without threads, and on three of them with every instruction set.
inline std::vector<CpuWay> CpuWays() {
  constexpr int kCount = 3;
  const auto parallel_for =
      [](int64_t total, int64_t,
         const std::function<void(int64_t, int64_t)>& body) {
        std::vector<std::thread> threads;
        for (int t = 0; t < kCount; ++t) {
          threads.emplace_back([=] {
            for (int64_t i = t; i < total; i += kCount) body(i, i + 1);
          });
        }
        for (auto& thread : threads) thread.join();
      };
  std::vector<CpuWay> ways = {{ChosenCpuTarget(), {}}};
  for (const CpuTarget target : SupportedCpuTargets()) {
    ways.push_back({target, {kCount, parallel_for}});
  }
  return ways;
}

// Returns whether the host, in every way, and a launch write the same bits. A
// CUDA graph replays every third launch.
template <typename OnHost, typename Launch>
bool WriteTheSame(const OnHost& on_host, const Launch& launch) {
  static const std::vector<CpuWay> ways = CpuWays();
  static int launched = 0;
  const std::string before = arena.Bytes();
  std::string expected;
  bool right = true;
  for (const CpuWay& way : ways) {
    arena.Restore(before);
    prefetch_distance = 512 * Any(2);  // As other processors choose it.
    arena.Guarded([&] { on_host(way); });
    if (expected.empty()) expected = arena.Bytes();
    right = right && arena.Bytes() == expected;
  }
  arena.Restore(before);
  NextThreadOrder();
  Work work = [&](void* stream) {
    return launch(GpuQueue{
        stream, [](std::size_t bytes) { return arena.New<char>(bytes + 1); }});
  };
  if (++launched % 3 == 0) work = Captured(work);
  arena.Guarded([&] {
    Require(work(nullptr));
    WaitForDevice();
  });
  // With the workspace, behind which there is poison.
  const std::string found = arena.Bytes();
  arena.Restore(expected);
  return right && found.compare(0, expected.size(), expected) == 0 &&
         found.substr(found.size() - 64) == std::string(64, '\xff');
}

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_SAME_BYTES_H_
