#include "tests/gpu/device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tf_opt/cc/engines/gpu/dense_gpu_launch.h"

namespace tf_opt {

void Require(const char* error) {
  if (error == nullptr) return;
  std::fprintf(stderr, "Error: %s\n", error);
  std::exit(1);
}

void RepeatOnDevice(void* memory, std::size_t pattern, std::size_t bytes) {
  char* const begin = static_cast<char*>(memory);
  for (std::size_t done = pattern; done < bytes; done *= 2) {
    Require(
        CopyOnGpu(begin + done, begin, std::min(done, bytes - done), nullptr));
  }
  WaitForDevice();
}

}  // namespace tf_opt
