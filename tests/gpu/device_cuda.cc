#include <cuda_runtime.h>

#include "tests/gpu/device.h"

namespace tf_opt {
namespace {

void RequireCuda(cudaError_t error) {
  if (error != cudaSuccess) Require(cudaGetErrorString(error));
}

}  // namespace

std::string DeviceName() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return "";
  cudaDeviceProp properties;
  RequireCuda(cudaGetDeviceProperties(&properties, 0));
  return properties.name;
}

void DeviceFree::operator()(void* memory) const { cudaFree(memory); }

DeviceMemory AllocateOnDevice(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) {
    cudaGetLastError();  // So that it isn't taken for the next call's.
    return nullptr;
  }
  return DeviceMemory(memory);
}

DeviceMemory AllocateShared(std::size_t bytes) {
  void* memory = nullptr;
  cudaMallocManaged(&memory, bytes);  // Fails without a device.
  cudaGetLastError();
  return DeviceMemory(memory);
}

void CopyToDevice(void* to, const void* from, std::size_t bytes) {
  RequireCuda(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
}

void CopyFromDevice(void* to, const void* from, std::size_t bytes) {
  RequireCuda(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

void WaitForDevice() { RequireCuda(cudaDeviceSynchronize()); }

void NextThreadOrder() {}

struct Graph::State {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
};

Graph::Graph(const Work& work) : state_(new State) {
  RequireCuda(cudaStreamCreate(&state_->stream));
  RequireCuda(
      cudaStreamBeginCapture(state_->stream, cudaStreamCaptureModeGlobal));
  Require(work(state_->stream));
  RequireCuda(cudaStreamEndCapture(state_->stream, &state_->graph));
  RequireCuda(cudaGraphInstantiate(&state_->executable, state_->graph, 0));
}

Graph::~Graph() {
  cudaGraphExecDestroy(state_->executable);
  cudaGraphDestroy(state_->graph);
  cudaStreamDestroy(state_->stream);
}

const char* Graph::operator()(void* stream) {
  RequireCuda(
      cudaGraphLaunch(state_->executable, static_cast<cudaStream_t>(stream)));
  return nullptr;
}

float TimeOnDevice(int repetitions, const Work& work) {
  cudaEvent_t begin, end;
  RequireCuda(cudaEventCreate(&begin));
  RequireCuda(cudaEventCreate(&end));
  RequireCuda(cudaEventRecord(begin, nullptr));
  for (int i = 0; i < repetitions; ++i) Require(work(nullptr));
  RequireCuda(cudaEventRecord(end, nullptr));
  RequireCuda(cudaEventSynchronize(end));
  float milliseconds = 0;
  RequireCuda(cudaEventElapsedTime(&milliseconds, begin, end));
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return milliseconds / repetitions;
}

}  // namespace tf_opt
