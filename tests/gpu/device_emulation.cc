#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "tests/gpu/device.h"
#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"

namespace tf_opt {

std::string DeviceName() { return "no GPU: the engine is emulated"; }

void DeviceFree::operator()(void* memory) const { std::free(memory); }

DeviceMemory Allocate(std::size_t bytes, bool) {
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) throw std::bad_alloc();
  return DeviceMemory(memory);
}

void Copy(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

void WaitForDevice() {}

void NextThreadOrder() {
  static std::mt19937 random;
#if defined(__SANITIZE_THREAD__)
  EmulatedDevice::order = random() % 2 ? EmulatedDevice::Order::kTwoAtOnce
                                       : EmulatedDevice::Order::kTwoInside;
#else
  EmulatedDevice::order = static_cast<EmulatedDevice::Order>(random() % 3);
#endif
}

Work Captured(const Work& work) { return work; }

float TimeOnDevice(int repetitions, const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) Require(work(nullptr));
  const std::chrono::duration<float, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  return elapsed.count() / repetitions;
}

}  // namespace tf_opt
