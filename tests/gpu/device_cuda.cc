#include <cuda_runtime.h>

#include <memory>
#include <new>

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

DeviceMemory Allocate(std::size_t bytes, bool shared) {
  void* memory = nullptr;
  shared ? cudaMallocManaged(&memory, bytes) : cudaMalloc(&memory, bytes);
  cudaGetLastError();  // So that it isn't taken for the next call's.
  if (memory == nullptr) throw std::bad_alloc();
  return DeviceMemory(memory);
}

void Copy(void* to, const void* from, std::size_t bytes) {
  RequireCuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  WaitForDevice();
}

void WaitForDevice() { RequireCuda(cudaDeviceSynchronize()); }

void NextThreadOrder() {}

Work Captured(const Work& work) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  RequireCuda(cudaStreamCreate(&stream));
  RequireCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  Require(work(stream));
  RequireCuda(cudaStreamEndCapture(stream, &graph));
  RequireCuda(cudaGraphInstantiate(&executable, graph, 0));
  RequireCuda(cudaGraphDestroy(graph));
  RequireCuda(cudaStreamDestroy(stream));
  const std::shared_ptr<CUgraphExec_st> owned(executable, cudaGraphExecDestroy);
  return [owned](void* stream) -> const char* {
    RequireCuda(
        cudaGraphLaunch(owned.get(), static_cast<cudaStream_t>(stream)));
    return nullptr;
  };
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
