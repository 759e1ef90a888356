// What the proof needs of a device besides the engine. What is particular to a
// GPU is in device_cuda.cc, to the emulated one in device_emulation.cc.
#ifndef TF_OPT_TESTS_GPU_DEVICE_H_
#define TF_OPT_TESTS_GPU_DEVICE_H_

#include <cstddef>
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

// Null if there is too little.
DeviceMemory AllocateOnDevice(std::size_t bytes);

// Each of these waits until it is done; the program ends if it can't be.
void CopyToDevice(void* to, const void* from, std::size_t bytes);
void CopyFromDevice(void* to, const void* from, std::size_t bytes);
// Fills `bytes` of memory with repetitions of its first `pattern` ones.
void RepeatOnDevice(void* memory, std::size_t pattern, std::size_t bytes);
void WaitForDevice();

// Work for a stream. Returns null, or what is wrong.
using Work = std::function<const char*(void* stream)>;

// Ends the program with a message unless `error` is null.
void Require(const char* error);

// Work captured as a CUDA graph.
class Graph {
 public:
  explicit Graph(const Work& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Does it once more, and waits.
  void Replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The time that `work` takes on the device, in milliseconds: the mean of
// `repetitions` in a row.
float TimeOnDevice(int repetitions, const Work& work);

}  // namespace tf_opt

#endif  // TF_OPT_TESTS_GPU_DEVICE_H_
