// Every rule, variable type and mode on a GPU, step by step, against the same
// rule in double on the host; a CUDA graph against plain launches; tensors of
// more than 2^31 elements; what is measured of gradients, to the bit; clipping,
// accumulation, averages, master weights and state in 16 bits, to the bit of
// the host.
//
//   correctness [--quick | --brief]
//
// --quick leaves out the tensors that take a machine without a GPU too long,
// --brief besides these all but three steps and the modes that choose no other
// kernel, for compute-sanitizer. run.sh builds and runs it.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/gpu/arena.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/device.h"
#include "tests/gpu/framed_steps.h"
#include "tests/gpu/launch.h"
#include "tests/gpu/measures.h"
#include "tf_opt/cc/engines/gpu/dense_gpu.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/engines/testing/measure_model.h"

namespace tf_opt {
namespace {

int steps = 20;
bool quick = false;
bool brief = false;

template <typename T>
constexpr const char* kDtype = "";
template <>
constexpr const char* kDtype<Half> = "float16";
template <>
constexpr const char* kDtype<BFloat16> = "bfloat16";
template <>
constexpr const char* kDtype<float> = "float32";
template <>
constexpr const char* kDtype<double> = "float64";

int failures = 0;

void Report(const std::string& what, bool passed, const std::string& detail) {
  std::printf("%-6s %s%s\n", passed ? "ok" : "FAILED", what.c_str(),
              detail.c_str());
  std::fflush(stdout);
  failures += !passed;
}

// A list of tensors on the device, and steps over it.
template <typename T, typename Case, typename Rule>
class Run {
 public:
  using V = ComputeType<T>;
  static constexpr int kSlots = Rule::kSlots;

  Run(const Modes& modes, const std::vector<int64_t>& sizes, bool unaligned)
      : modes_(modes), sizes_(sizes) {
    for (const int64_t size : sizes) {
      variables_.push_back(Add<T>(size, unaligned));
      gradients_.push_back(Add<T>(size, unaligned));
    }
    for (int k = 0; k < kSlots; ++k) {
      for (const int64_t size : sizes) {
        slots_.push_back(Add<V>(Rows(k) * size, unaligned));
      }
    }
    arena_.Allocate();
    std::mt19937 random(7);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (const std::size_t array : {variables_[i], gradients_[i]}) {
        T* const values = arena_.OnHost<T>(array);
        for (int64_t j = 0; j < sizes[i]; ++j) {
          values[j] = Small<T>(random());
        }
      }
      for (int k = 0; k < kSlots; ++k) {
        V* const values = arena_.OnHost<V>(Slot(k, i));
        for (int64_t j = 0; j < Rows(k) * sizes[i]; ++j) {
          values[j] = (random() % 1000) * 1e-3;
        }
      }
    }
    arena_.Upload();
    launch_ = std::make_unique<Launch<T, Case>>(
        modes, sizes, OnDevice<void*>(variables_),
        OnDevice<const void*>(gradients_), OnDevice<void*>(slots_),
        Case::kRows);
  }

  // The largest error of a step, in units of what rounding may cause.
  double ErrorOfStep(int t) {
    const std::vector<unsigned char> before = arena_.host();
    SetStep(t);
    Require((*launch_)(nullptr));
    WaitForDevice();
    arena_.Download();

    const typename ExactRule::Step step(Case::At(t, modes_));
    double worst = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const ExactRule rule(step, {Launch<T, Case>::WeightDecay(i)});
      for (int64_t j = 0; j < sizes_[i]; ++j) {
        double p = Before<T>(before, variables_[i], j);
        double slots[kSlots];
        for (int k = 0; k < kSlots; ++k) {
          slots[k] = Before<V>(before, Slot(k, i), RowAt(k, t, i) + j);
        }
        Apply(rule, p, Before<T>(before, gradients_[i], j), slots,
              std::make_index_sequence<kSlots>());
        const double got = ToDouble(arena_.OnHost<T>(variables_[i])[j]);
        Include(std::fabs(got - p) / (Tolerance() + HalfUnit() * std::fabs(p)),
                &worst);
        for (int k = 0; k < kSlots; ++k) {
          const double slot = arena_.OnHost<V>(Slot(k, i))[RowAt(k, t, i) + j];
          Include(std::fabs(slot - slots[k]) / Tolerance(), &worst);
        }
      }
      // Of a table no other row.
      for (int row = 0; row < Case::kRows; ++row) {
        if (row == t % Case::kRows) continue;
        const std::size_t at = Slot(1, i) + row * sizes_[i] * sizeof(V);
        if (std::memcmp(arena_.host().data() + at, before.data() + at,
                        sizes_[i] * sizeof(V)) != 0) {
          worst = INFINITY;
        }
      }
    }
    return worst;
  }

  void SetStep(int t) {
    launch_->Set(Case::At(t, modes_), Case::kRows > 0 ? t % Case::kRows : 0);
  }

  const std::vector<unsigned char>& Download() {
    WaitForDevice();
    arena_.Download();
    return arena_.host();
  }

  Arena& arena() { return arena_; }
  Launch<T, Case>& launch() { return *launch_; }

 private:
  // The same rule in double.
  template <typename R>
  struct InDouble;
  template <template <typename, bool...> class R, typename W, bool... kModes>
  struct InDouble<R<W, kModes...>> {
    using type = R<double, kModes...>;
  };
  using ExactRule = typename InDouble<Rule>::type;

  static int64_t Rows(int k) { return k == 1 && Case::kRows ? Case::kRows : 1; }

  template <typename E>
  std::size_t Add(int64_t size, bool unaligned) {
    return arena_.Add(size * sizeof(E), unaligned ? sizeof(E) : 0);
  }

  template <typename P>
  std::vector<P> OnDevice(const std::vector<std::size_t>& arrays) {
    std::vector<P> pointers;
    for (const std::size_t array : arrays) {
      pointers.push_back(arena_.OnDevice<unsigned char>(array));
    }
    return pointers;
  }

  std::size_t Slot(int k, std::size_t i) const {
    return slots_[k * sizes_.size() + i];
  }

  int64_t RowAt(int k, int t, std::size_t i) const {
    return Rows(k) == 1 ? 0 : t % Case::kRows * sizes_[i];
  }

  template <typename E>
  static double Before(const std::vector<unsigned char>& before,
                       std::size_t array, int64_t j) {
    E value;
    std::memcpy(&value, before.data() + array + j * sizeof(E), sizeof(E));
    return ToDouble(value);
  }

  template <typename Exact, std::size_t... kIndices>
  static void Apply(const Exact& rule, double& p, double g, double* slots,
                    std::index_sequence<kIndices...>) {
    if constexpr (Exact::kRoundsGradientLikeSlot) {
      rule(p, g, slots[kIndices]..., [](double value) { return value; });
    } else {
      rule(p, g, slots[kIndices]...);
    }
  }

  // A NaN is no maximum.
  static void Include(double error, double* worst) {
    *worst = std::isnan(error) ? INFINITY : std::fmax(*worst, error);
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

  Modes modes_;
  std::vector<int64_t> sizes_;
  Arena arena_;
  std::vector<std::size_t> variables_, gradients_, slots_;
  std::unique_ptr<Launch<T, Case>> launch_;
};

// A captured step, replayed with other numbers, against launches.
template <typename T, typename Case, typename Rule>
bool GraphEqualsLaunches(const Modes& modes,
                         const std::vector<int64_t>& sizes) {
  Run<T, Case, Rule> launched(modes, sizes, false),
      replayed(modes, sizes, false);
  Graph graph([&](void* stream) { return replayed.launch()(stream); });
  for (int t = 1; t <= steps; ++t) {
    launched.SetStep(t);
    Require(launched.launch()(nullptr));
    WaitForDevice();
    replayed.SetStep(t);
    graph.Replay();
  }
  return launched.Download() == replayed.Download();
}

// A number out of its range, or a row that isn't there: nothing is written.
template <typename T, typename Case, typename Rule>
bool RefusesWrongNumbers(const Modes& modes,
                         const std::vector<int64_t>& sizes) {
  Run<T, Case, Rule> run(modes, sizes, false);
  const std::vector<unsigned char> before = run.arena().host();
  for (const auto& input : Case::kScalars) {
    if (input.range == Range::kAny) continue;
    auto hyperparameters = Case::At(1, modes);
    const double wrong = -1;
    const int64_t wrong_integer = 0;
    input.Read(input.integer ? static_cast<const void*>(&wrong_integer)
                             : static_cast<const void*>(&wrong),
               &hyperparameters);
    run.launch().Set(hyperparameters, 0);
    Require(run.launch()(nullptr));
  }
  if (Case::kRows > 0) {
    for (const int64_t row : {-1, Case::kRows}) {
      run.launch().Set(Case::At(1, modes), row);
      Require(run.launch()(nullptr));
    }
  }
  return run.Download() == before;
}

// More elements than 32 bits can count: repetitions of a small tensor, which
// must stay just that.
template <typename T, typename Case, typename Rule>
void CheckLarge(const std::string& name) {
  using V = ComputeType<T>;
  constexpr int kSlots = Rule::kSlots;
  constexpr int64_t kPattern = (1 << 20) + 9;
  constexpr int64_t kSize = (int64_t{1} << 31) + 4097;
  const std::string what = name + ", 2^31 + 4,097 elements";

  std::vector<DeviceMemory> large, small;
  std::vector<void*> pointers[2];
  std::vector<int64_t> bytes;
  for (int k = 0; k < 2 + kSlots; ++k) {
    bytes.push_back(k < 2 ? sizeof(T) : sizeof(V));
    large.push_back(AllocateOnDevice(kSize * bytes[k]));
    small.push_back(AllocateOnDevice(kPattern * bytes[k]));
    if (large.back() == nullptr || small.back() == nullptr) {
      std::printf("-      %s: skipped, too little memory\n", what.c_str());
      return;
    }
    pointers[0].push_back(large.back().get());
    pointers[1].push_back(small.back().get());
  }
  DenseModel<T, kSlots> model({kPattern});
  const auto tensor = model.Tensors()[0];
  const void* host[2 + kSlots] = {tensor.variable(), tensor.gradient()};
  for (int k = 0; k < kSlots; ++k) {
    host[2 + k] = tensor.operands[kFrameOperandCount + k];
  }
  for (int k = 0; k < 2 + kSlots; ++k) {
    const int64_t pattern = kPattern * bytes[k];
    CopyToDevice(small[k].get(), host[k], pattern);
    CopyToDevice(large[k].get(), host[k], pattern);
    RepeatOnDevice(large[k].get(), pattern, kSize * bytes[k]);
  }

  const Modes modes;
  std::unique_ptr<Launch<T, Case>> launches[2];
  for (int i = 0; i < 2; ++i) {
    const auto& of = pointers[i];
    launches[i] = std::make_unique<Launch<T, Case>>(
        modes, std::vector<int64_t>{i == 0 ? kSize : kPattern},
        std::vector<void*>{of[0]}, std::vector<const void*>{of[1]},
        std::vector<void*>(of.begin() + 2, of.end()), Case::kRows ? 1 : 0);
    for (int t = 1; t <= steps; ++t) {
      launches[i]->Set(Case::At(t, modes), 0);
      Require((*launches[i])(nullptr));
      WaitForDevice();
    }
  }

  bool same = true;
  for (int k = 0; k < 2 + kSlots; ++k) {
    const int64_t pattern = kPattern * bytes[k], size = kSize * bytes[k];
    std::vector<char> wanted(pattern), got(pattern);
    CopyFromDevice(wanted.data(), small[k].get(), pattern);
    for (int64_t done = 0; done < size; done += pattern) {
      const int64_t piece = std::min(pattern, size - done);
      CopyFromDevice(got.data(), static_cast<char*>(large[k].get()) + done,
                     piece);
      same = same && std::memcmp(got.data(), wanted.data(), piece) == 0;
    }
    // Not as it was: it has been written at all.
    same =
        same && (k == 1) == (std::memcmp(wanted.data(), host[k], pattern) == 0);
  }
  Report(what, same, "");
}

// All that surrounds a rule, with variables and state of every type.
template <typename T, typename Case, typename Rule>
void CheckFramed(const std::string& name, const Modes& modes) {
  const std::vector<int64_t> sizes = {0, 1,  3,  17,           kTileSize,
                                      0, 31, 16, kTileSize + 5};
  for (const auto& [frame, stored] : Pairs(AllFrames(), AllStored<T, Case>())) {
    bool equal = true;
    for (const auto& [offset, special] :
         Pairs<int, int>({0, 1}, brief ? std::vector{1} : std::vector{0, 1})) {
      FramedSteps<T, Case, Rule> steps(modes, frame, stored, sizes, offset,
                                       special);
      Require(steps(nullptr));
      equal = steps.EqualTheHost() && equal;
    }
    std::string what = name;
    what += frame.update ? ", updating" : ", accumulating";
    if (frame.overwrite_with_average) what += ", overwriting, stochastic";
    if (stored.master_weights) what += ", master weights";
    if (stored.state == StateType::kBFloat16) what += ", bfloat16 state";
    if (stored.state == StateType::kFloat) what += ", float32 state";
    Report(what, equal, "");
  }
}

std::string NameOf(const char* optimizer, const char* dtype,
                   const Modes& modes) {
  std::string name = std::string(optimizer) + ", " + dtype;
  if (modes.amsgrad) name += ", amsgrad";
  if (modes.epsilon_hat) name += ", epsilon_hat";
  name += modes.l2 ? ", L2" : ", decoupled";
  if (modes.maximize) name += ", maximize";
  return name;
}

template <typename T, typename Case>
void CheckType() {
  const std::vector<int64_t> sizes = {0, 1,    3,  17, kTileSize,
                                      0, 4097, 31, 16, 3 * kTileSize + 5};
  std::vector<int64_t> more = sizes;
  if (!quick) more.push_back((1 << 20) + 1);
  constexpr bool kIsAdam = std::is_same<Case, AdamCase>::value;
  for (int bits = 0; bits < (kIsAdam ? 16 : 4); ++bits) {
    const Modes modes = {(bits & 4) != 0, (bits & 8) != 0, (bits & 1) != 0,
                         (bits & 2) != 0};
    if (brief && (modes.epsilon_hat || modes.maximize)) continue;
    const std::string name = NameOf(Case::kName, kDtype<T>, modes);
    Case::template Choose<ComputeType<T>>(modes, [&](auto chosen) {
      using Rule = typename decltype(chosen)::type;
      for (const bool unaligned : {false, true}) {
        Run<T, Case, Rule> run(modes, bits == 0 ? more : sizes, unaligned);
        double worst = 0;
        for (int t = 1; t <= steps; ++t) {
          worst = std::fmax(worst, run.ErrorOfStep(t));
        }
        Report(name + (unaligned ? ", unaligned" : ""),
               worst <= 1 && run.arena().PaddingIsUntouched(),
               ": error " + std::to_string(worst) + " of what is allowed");
      }
      Report(name + ", CUDA graph",
             GraphEqualsLaunches<T, Case, Rule>(modes, sizes), "");
      if (!modes.epsilon_hat && !modes.maximize) {
        CheckFramed<T, Case, Rule>(name, modes);
      }
      if (bits == 0) {
        // More than a launch can describe.
        std::vector<int64_t> many(2000);
        for (std::size_t i = 0; i < many.size(); ++i) many[i] = i % 37;
        Run<T, Case, Rule> run(modes, many, false);
        Report(name + ", 2,000 tensors in " +
                   std::to_string(run.launch().launches()) + " launches",
               run.launch().launches() > 3 && run.ErrorOfStep(1) <= 1, "");
        Report(name + ", wrong numbers",
               RefusesWrongNumbers<T, Case, Rule>(modes, sizes), "");
        if (!quick) CheckLarge<T, Case, Rule>(name);
      }
    });
  }
}

// What is measured of gradients, with special numbers and without.
template <typename T>
void CheckMeasures() {
  std::vector<int64_t> many(3000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i % 37;
  for (const auto* sizes : {&MeasuredSizes(), &std::as_const(many)}) {
    for (int bits = 0; bits < 16; ++bits) {
      const bool accumulated = bits & 1, special = bits & 2,
                 unaligned = bits & 4, enabled = !(bits & 8);
      if (!enabled && bits != 8) continue;
      MeasureModel<T> model(*sizes, accumulated);
      if (special) model.AddSpecialNumbers();
      const auto tensors = model.Tensors();
      const std::string name = std::string("measures, ") + kDtype<T> + ", " +
                               std::to_string(tensors.size()) + " tensors" +
                               (accumulated ? ", accumulated" : "") +
                               (special ? ", special numbers" : "") +
                               (unaligned ? ", unaligned" : "") +
                               (enabled ? "" : ", disabled");
      DeviceMeasures<T> launched(tensors, 0.3, enabled, unaligned);
      Require(launched(nullptr));
      Report(name, launched.AreRight(), "");
      DeviceMeasures<T> replayed(tensors, 0.3, enabled, unaligned);
      Graph graph([&](void* stream) { return replayed(stream); });
      graph.Replay();
      Report(name + ", CUDA graph", replayed.AreRight(), "");
    }
  }
}

template <typename Case>
void Check() {
  CheckType<Half, Case>();
  CheckType<BFloat16, Case>();
  CheckType<float, Case>();
  CheckType<double, Case>();
}

}  // namespace
}  // namespace tf_opt

int main(int argc, char** argv) {
  using namespace tf_opt;
  const std::string option = argc > 1 ? argv[1] : "";
  if (argc > 2 ||
      !(option.empty() || option == "--quick" || option == "--brief")) {
    std::fputs("usage: correctness [--quick | --brief]\n", stderr);
    return 2;
  }
  brief = option == "--brief";
  quick = brief || option == "--quick";
  if (brief) steps = 3;
  const std::string device = DeviceName();
  if (device.empty()) {
    std::puts("No GPU was found: nothing was checked.");
    return 77;  // What test runners take for skipped.
  }
  std::printf("On: %s\n", device.c_str());
  Check<AdamCase>();
  Check<NAdamCase>();
  Check<AsgdCase>();
  Check<AveragedSgdCase>();
  CheckMeasures<Half>();
  CheckMeasures<BFloat16>();
  CheckMeasures<float>();
  CheckMeasures<double>();
  std::printf("%d failed\n", failures);
  return failures != 0;
}
