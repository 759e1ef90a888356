// What the proof needs of a device besides the engine. What is particular to a
// GPU is in device_cuda.cc, to the emulated one in device_emulation.cc.
#ifndef TF_OPT_TESTS_GPU_DEVICE_H_
#define TF_OPT_TESTS_GPU_DEVICE_H_

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"

namespace tf_opt {

// What the device is called; empty if there is none.
std::string DeviceName();

struct DeviceFree {
  void operator()(void* memory) const;
};
using DeviceMemory = std::unique_ptr<void, DeviceFree>;

// Null if there is too little.
DeviceMemory AllocateOnDevice(std::size_t bytes);
// The same that the host, too, can read and write, unless the device works.
DeviceMemory AllocateShared(std::size_t bytes);

// Each of these waits until it is done; the program ends if it can't be.
void CopyToDevice(void* to, const void* from, std::size_t bytes);
void CopyFromDevice(void* to, const void* from, std::size_t bytes);
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

// Fills `bytes` of memory with repetitions of its first `pattern` ones.
inline void RepeatOnDevice(void* memory, std::size_t pattern,
                           std::size_t bytes) {
  char* const begin = static_cast<char*>(memory);
  for (std::size_t done = pattern; done < bytes; done *= 2) {
    Require(
        CopyOnGpu(begin + done, begin, std::min(done, bytes - done), nullptr));
  }
  WaitForDevice();
}

// Work captured as a CUDA graph.
class Graph {
 public:
  explicit Graph(const Work& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Does it once more, in a stream.
  const char* operator()(void* stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The time that `work` takes on the device, in milliseconds: the mean of
// `repetitions` in a row.
float TimeOnDevice(int repetitions, const Work& work);

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_DEVICE_H_
