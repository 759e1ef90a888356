// What Python asks about a GPU, through ctypes, before it lets a kernel run
// there.
#include <cuda_runtime.h>

#include <cstdio>

#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"

// Null, or why the kernels can't run on a GPU, until the next call.
extern "C" const char* TfOptGpuProblem(int device) {
  const char* const problem = tf_opt::GpuProblem(device);
  if (problem == nullptr) return nullptr;
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  static char text[256];
  std::snprintf(text, sizeof(text),
                "%s (the NVIDIA driver knows CUDA %d.%d, the kernels are built "
                "with CUDA %d.%d)",
                problem, driver / 1000, driver % 1000 / 10, runtime / 1000,
                runtime % 1000 / 10);
  return text;
}
