#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/gpu/device.h"
#include "tf_opt/cc/engines/gpu/gpu_emulation-inl.h"

namespace tf_opt {

std::string DeviceName() { return "no GPU: the engine is emulated"; }

void DeviceFree::operator()(void* memory) const { std::free(memory); }

DeviceMemory AllocateOnDevice(std::size_t bytes) {
  return DeviceMemory(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
}

DeviceMemory AllocateShared(std::size_t bytes) {
  return AllocateOnDevice(bytes);
}

void CopyToDevice(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

void CopyFromDevice(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

void WaitForDevice() {}

void NextThreadOrder() {
  static std::mt19937 random;
  EmulatedDevice::order = static_cast<EmulatedDevice::Order>(random() % 3);
}

struct Graph::State {
  Work work;
};

Graph::Graph(const Work& work) : state_(new State{work}) {}

Graph::~Graph() = default;

const char* Graph::operator()(void* stream) { return state_->work(stream); }

float TimeOnDevice(int repetitions, const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) Require(work(nullptr));
  const std::chrono::duration<float, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  return elapsed.count() / repetitions;
}

}  // namespace tf_opt
