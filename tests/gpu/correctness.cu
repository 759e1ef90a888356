// Every rule, variable type and mode on a GPU, step by step, against the same
// rule in double on the host; then a CUDA graph against plain launches.
//
// Needs neither TensorFlow nor Bazel: see run.sh.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tf_opt/cc/engines/dense_cuda.cuh"
#include "tf_opt/cc/engines/dense_model.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/asgd.h"
#include "tf_opt/cc/rules/averaged_sgd.h"
#include "tf_opt/cc/rules/nadam.h"

namespace tf_opt {
namespace {

constexpr int kSteps = 20;

void Require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

// Memory that host and device both see.
template <typename E>
struct ManagedAllocator {
  using value_type = E;
  ManagedAllocator() = default;
  template <typename Other>
  ManagedAllocator(const ManagedAllocator<Other>&) {}
  E* allocate(std::size_t n) {
    void* memory;
    Require(cudaMallocManaged(&memory, n * sizeof(E)), "cudaMallocManaged");
    return static_cast<E*>(memory);
  }
  void deallocate(E* memory, std::size_t) { cudaFree(memory); }
  bool operator==(const ManagedAllocator&) const { return true; }
  bool operator!=(const ManagedAllocator&) const { return false; }
};

template <typename E>
using ManagedVector = std::vector<E, ManagedAllocator<E>>;

// What a family of rules is called and what its step `t` goes by.
template <bool kAmsgrad, bool kL2>
struct Adam {
  using Hyperparameters = AdamHyperparameters;
  using Step = AdamStep;
  template <typename V>
  using Rule = AdamRule<V, kAmsgrad, kL2>;
  static constexpr const char* kName = kAmsgrad ? "Adam, AMSGrad" : "Adam";
  static Hyperparameters At(int t, bool maximize) {
    Hyperparameters h;
    h.step = t;
    h.beta_2 = 0.75;
    h.epsilon_hat = maximize;
    h.maximize = maximize;
    return h;
  }
};

template <bool kL2>
struct NAdam {
  using Hyperparameters = NAdamHyperparameters;
  using Step = NAdamStep;
  template <typename V>
  using Rule = NAdamRule<V, kL2>;
  static constexpr const char* kName = "NAdam";
  static Hyperparameters At(int t, bool maximize) {
    Hyperparameters h;
    h.step = t;
    h.momentum_product = std::pow(0.45, t - 1);
    h.maximize = maximize;
    return h;
  }
};

template <bool kL2>
struct Asgd {
  using Hyperparameters = AsgdHyperparameters;
  using Step = AsgdStep;
  template <typename V>
  using Rule = AsgdRule<V, kL2>;
  static constexpr const char* kName = "ASGD";
  static Hyperparameters At(int t, bool maximize) {
    Hyperparameters h;
    h.learning_rate = 0.0625;
    h.seen_batches = 1 + t % 3;
    h.maximize = maximize;
    return h;
  }
};

template <bool kL2>
struct AveragedSgd {
  using Hyperparameters = AveragedSgdHyperparameters;
  using Step = AveragedSgdStep;
  template <typename V>
  using Rule = AveragedSgdRule<V, kL2>;
  static constexpr const char* kName = "AveragedSGD";
  static Hyperparameters At(int t, bool maximize) {
    Hyperparameters h;
    h.step = t;
    h.eta = 0.0625 / t;
    h.t0 = 5;
    h.maximize = maximize;
    return h;
  }
};

template <typename Hyperparameters>
struct ReadFrom {
  const Hyperparameters* at;
  __device__ Hyperparameters operator()() const { return *at; }
};

template <typename T, typename Family>
class Run {
 public:
  using V = ComputeType<T>;
  using Rule = typename Family::template Rule<V>;
  using Exact = typename Family::template Rule<double>;
  static constexpr int kSlots = Rule::kSlots;
  using Model = DenseModel<T, kSlots, ManagedAllocator>;

  Run(const std::vector<int64_t>& sizes, int offset, bool maximize)
      : model(sizes, offset),
        maximize_(maximize),
        hyperparameters_(1, Family::At(1, maximize)),
        step_(1, typename Family::Step(hyperparameters_[0])),
        weight_decay_(sizes.size()) {
    for (size_t i = 0; i < sizes.size(); ++i) weight_decay_[i] = 0.01 * i;
  }

  void Launch(cudaStream_t stream) {
    ComputeStep<<<1, 1, 0, stream>>>(
        ReadFrom<typename Family::Hyperparameters>{hyperparameters_.data()},
        step_.data());
    Require(ApplyDenseCuda<T, Rule>(model.Tensors(),
                                    GpuScalars<typename Family::Step>{
                                        step_.data(), weight_decay_.data()},
                                    stream),
            Family::kName);
  }

  void SetStep(int t) { hyperparameters_[0] = Family::At(t, maximize_); }

  // The largest error of a step, in units of what rounding may cause.
  double ErrorOfStep(int t) {
    const auto before = Doubles();
    SetStep(t);
    Launch(nullptr);
    Require(cudaDeviceSynchronize(), Family::kName);
    const auto after = Doubles();
    const typename Family::Step step(hyperparameters_[0]);
    double worst = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      const Exact rule(step, weight_decay_[i]);
      for (size_t j = 0; j < before[i][0].size(); ++j) {
        double p = before[i][0][j];
        double slots[kSlots];
        for (int k = 0; k < kSlots; ++k) slots[k] = before[i][k + 2][j];
        Apply(rule, p, before[i][1][j], slots,
              std::make_index_sequence<kSlots>());
        worst = std::fmax(worst, std::fabs(after[i][0][j] - p) /
                                     (Tolerance() + HalfUnit() * std::fabs(p)));
        for (int k = 0; k < kSlots; ++k) {
          worst = std::fmax(
              worst, std::fabs(after[i][k + 2][j] - slots[k]) / Tolerance());
        }
      }
    }
    // A NaN is no maximum.
    return std::isnan(worst) ? INFINITY : worst;
  }

  Model model;

 private:
  template <std::size_t... kIndices>
  static void Apply(const Exact& rule, double& p, double g, double* slots,
                    std::index_sequence<kIndices...>) {
    rule(p, g, slots[kIndices]...);
  }

  // Values stay below 8; a few units in the last place.
  static double Tolerance() {
    return std::is_same<V, double>::value ? 2e-14 : 1e-5;
  }
  // Of a variable that is rounded to 16 bits.
  static double HalfUnit() {
    if (std::is_same<T, Half>::value) return 0x1.01p-11;
    if (std::is_same<T, BFloat16>::value) return 0x1.01p-8;
    return 0;
  }

  // Of each tensor: variable, gradient, slots.
  std::vector<std::vector<std::vector<double>>> Doubles() const {
    std::vector<std::vector<std::vector<double>>> result;
    const auto widen = [](const auto& array) {
      std::vector<double> values;
      for (int64_t j = 0; j < array.size(); ++j) {
        values.push_back(ToDouble(array[j]));
      }
      return values;
    };
    for (size_t i = 0; i < model.variables.size(); ++i) {
      result.push_back({widen(model.variables[i]), widen(model.gradients[i])});
      for (int k = 0; k < kSlots; ++k) {
        result.back().push_back(widen(model.slots[i * kSlots + k]));
      }
    }
    return result;
  }

  bool maximize_;
  ManagedVector<typename Family::Hyperparameters> hyperparameters_;
  ManagedVector<typename Family::Step> step_;
  ManagedVector<double> weight_decay_;
};

// A captured step, replayed, against the same steps launched.
template <typename T, typename Family>
bool GraphEqualsLaunches(const std::vector<int64_t>& sizes) {
  Run<T, Family> launched(sizes, 0, false), replayed(sizes, 0, false);
  cudaStream_t stream;
  Require(cudaStreamCreate(&stream), "cudaStreamCreate");
  cudaGraph_t graph;
  Require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal),
          "cudaStreamBeginCapture");
  replayed.Launch(stream);
  Require(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable;
  Require(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  for (int t = 1; t <= kSteps; ++t) {
    launched.SetStep(t);
    launched.Launch(stream);
    replayed.SetStep(t);
    Require(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
    Require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  const bool same = launched.model.SameBits(replayed.model);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return same;
}

int failures = 0;

void Report(const std::string& what, bool passed, const std::string& detail) {
  std::printf("%-6s %s%s\n", passed ? "ok" : "FAILED", what.c_str(),
              detail.c_str());
  failures += !passed;
}

template <typename T, typename Family>
void CheckType(const char* type, const char* mode) {
  const std::vector<int64_t> sizes = {0, 1,    3,  17,           kGpuChunk,
                                      0, 4097, 31, (1 << 20) + 1};
  const std::string name =
      std::string(Family::kName) + ", " + mode + ", " + type;
  for (const bool maximize : {false, true}) {
    for (const int offset : {0, 1}) {
      Run<T, Family> run(sizes, offset, maximize);
      double worst = 0;
      for (int t = 1; t <= kSteps; ++t) {
        worst = std::fmax(worst, run.ErrorOfStep(t));
      }
      Report(
          name + (maximize ? ", maximize" : "") + (offset ? ", unaligned" : ""),
          worst <= 1 && run.model.PaddingIsUntouched(),
          ": error " + std::to_string(worst) + " of what is allowed");
    }
  }
  Report(name + ", CUDA graph", GraphEqualsLaunches<T, Family>(sizes), "");
}

template <typename Family>
void CheckTypes(const char* mode) {
  CheckType<Half, Family>("float16", mode);
  CheckType<BFloat16, Family>("bfloat16", mode);
  CheckType<float, Family>("float32", mode);
  CheckType<double, Family>("float64", mode);
}

}  // namespace
}  // namespace tf_opt

int main() {
  using namespace tf_opt;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("No GPU was found: nothing was checked.");
    return 77;  // What test runners take for skipped.
  }
  CheckTypes<Adam<false, false>>("decoupled");
  CheckTypes<Adam<false, true>>("L2");
  CheckTypes<Adam<true, false>>("decoupled");
  CheckTypes<Adam<true, true>>("L2");
  CheckTypes<NAdam<false>>("decoupled");
  CheckTypes<NAdam<true>>("L2");
  CheckTypes<Asgd<false>>("decoupled");
  CheckTypes<Asgd<true>>("L2");
  CheckTypes<AveragedSgd<false>>("decoupled");
  CheckTypes<AveragedSgd<true>>("L2");
  std::printf("%d failed\n", failures);
  return failures != 0;
}
