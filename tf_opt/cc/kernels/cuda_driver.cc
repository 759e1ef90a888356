// What Python asks about the machine's NVIDIA driver, through ctypes, before it
// lets a kernel run on a GPU.
#include <cuda_runtime.h>

#include <cstdio>

namespace {

// Programs run with every driver of their CUDA's major version, but kernels
// with as many arguments as the engine's only since 12.1.
constexpr int kFirstDriver = 12010;

}  // namespace

// Null, or why the machine's driver can't run the kernels.
extern "C" const char* TfOptCudaDriverProblem() {
  static char problem[160];
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "no NVIDIA driver was found";
  if (driver >= kFirstDriver && driver / 1000 >= runtime / 1000) return nullptr;
  std::snprintf(problem, sizeof(problem),
                "the NVIDIA driver knows CUDA %d.%d, but the kernels are built "
                "with CUDA %d.%d",
                driver / 1000, driver % 1000 / 10, runtime / 1000,
                runtime % 1000 / 10);
  return problem;
}
