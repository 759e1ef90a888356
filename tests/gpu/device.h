// What the proof needs of a device besides the engine. What is particular to a
// GPU is in device_cuda.cc, to the emulated one in device_emulation.cc.
#ifndef TF_OPT_TESTS_GPU_DEVICE_H_
#define TF_OPT_TESTS_GPU_DEVICE_H_

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

namespace tf_opt {

// What the device is called; empty if there is none.
std::string DeviceName();

struct DeviceFree {
  void operator()(void* memory) const;
};
using DeviceMemory = std::unique_ptr<void, DeviceFree>;

// Throws bad_alloc if there is too little. What is shared the host, too, can
// read and write, unless the device works.
DeviceMemory Allocate(std::size_t bytes, bool shared = false);

// Each of these waits until it is done; the program ends if it can't be. Either
// memory may be the host's.
void Copy(void* to, const void* from, std::size_t bytes);
void WaitForDevice();

// Work for a stream. Returns null, or what is wrong.
using Work = std::function<const char*(void* stream)>;

// Ends the program with a message unless `error` is null.
inline void Require(const char* error) {
  if (error == nullptr) return;
  std::fprintf(stderr, "Error: %s\n", error);
  std::exit(1);
}

// Prints the result of a check.
inline int failures = 0;
inline void Report(const std::string& what, bool passed) {
  std::printf("%-6s %s\n", passed ? "ok" : "FAILED", what.c_str());
  std::fflush(stdout);
  failures += !passed;
}

// Changes the order in which emulated threads run.
void NextThreadOrder();

// Captures work as a CUDA graph, which the returned work replays.
Work Captured(const Work& work);

// The time that `work` takes on the device, in milliseconds: the mean of
// `repetitions` in a row.
float TimeOnDevice(int repetitions, const Work& work);

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_DEVICE_H_
