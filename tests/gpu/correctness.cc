// Every rule, variable type and mode on a GPU, with all that may surround a
// rule and state of every type, step by step: the bits must be those of the
// same step on the host. Steps are launched, and replayed by a CUDA graph. Then
// wrong numbers, many tensors, tensors of more than 2^31 elements, and what is
// measured of gradients.
//
//   correctness [--quick | --brief]
//
// --quick leaves out the tensors that take a machine without a GPU too long,
// --brief besides these some steps and the modes that choose no other kernel,
// for compute-sanitizer. run.sh builds and runs it.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/cases.h"
#include "tests/gpu/device.h"
#include "tests/gpu/launch.h"
#include "tests/gpu/measures.h"
#include "tests/gpu/steps.h"
#include "tf_opt/cc/engines/testing/dense_model.h"
#include "tf_opt/cc/engines/testing/measure_model.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/all_rules.h"
#include "tf_opt/cc/rules/description.h"

namespace tf_opt {
namespace {

bool quick = false;
bool brief = false;

template <typename Use>
void ForEachType(const Use& use) {
  use(Half(), "float16");
  use(BFloat16(), "bfloat16");
  use(float(), "float32");
  use(double(), "float64");
}

// What surrounds a rule, and how its tensors are stored.
struct Surroundings {
  bool framed = false;  // With accumulators and averages.
  FrameInputs frame;
  Stored stored;
};

template <typename Case>
Numbers<Case> At(int t, const Modes& modes, const Surroundings& around = {}) {
  Numbers<Case> numbers = {Case::At(t, modes), around.frame};
  numbers.frame.iteration += t;
  if (around.framed) {
    numbers.own = {
        .learning_rate_factor = 1.5, .gradient_factor = 1.25, .number = 5};
  }
  return numbers;
}

template <typename T, typename Case, typename Rule>
bool StepsAreRight(const Modes& modes, const Surroundings& around) {
  std::vector<int64_t> sizes = {0, 1,    3,  17,           kTileSize,
                                0, 4097, 16, kTileSize + 5};
  if (!quick && !around.framed) sizes.push_back((1 << 20) + 1);
  const int launched = brief ? 1 : 2;
  bool right = true;
  for (const auto& [offset, special] :
       Pairs<int, int>({0, 1}, brief ? std::vector{1} : std::vector{0, 1})) {
    Steps<T, Case, Rule> steps(sizes, offset, special, around.framed,
                               around.stored);
    for (int t = 1; t <= launched; ++t) {
      right = steps.Launched(At<Case>(t, modes, around)) && right;
    }
    right = steps.Replayed(At<Case>(launched + 1, modes, around)) && right;
  }
  return right;
}

// A number out of its range, or a layer that isn't there: nothing is written.
template <typename T, typename Case, typename Rule>
bool RefusesWrongNumbers(const Modes& modes) {
  Steps<T, Case, Rule> steps({1, 17, kTileSize + 5}, 0, false);
  bool right = true;
  for (const auto& input : Case::kScalars) {
    if (input.range == Range::kAny) continue;
    Numbers<Case> numbers = At<Case>(1, modes);
    const double wrong = -1;
    const int64_t wrong_integer = 0;
    input.Read(input.integer ? static_cast<const void*>(&wrong_integer)
                             : static_cast<const void*>(&wrong),
               &numbers.hyperparameters);
    right = steps.Refused(numbers) && right;
  }
  for (const int64_t layer : {-1, Case::kLayers}) {
    Numbers<Case> numbers = At<Case>(1, modes);
    numbers.layer = layer;
    right = (Case::kLayers == 0 || steps.Refused(numbers)) && right;
  }
  return right;
}

// More elements than 32 bits can count: repetitions of a small tensor, which
// must stay just that. Where an element lies is no matter of the rule, so one
// rule will do.
template <typename T>
void CheckLarge(const std::string& dtype) {
  using Case = tf_opt::Case<Adam>;
  using Rule = RuleOf<Adam, ComputeType<T>, 0>;
  constexpr int64_t kPattern = (1 << 20) + 9;
  constexpr int64_t kSize = (int64_t{1} << 31) + 4097;
  const std::string what =
      Case::Name({}) + ", " + dtype + ", 2^31 + 4,097 elements";

  DenseModel<T, Rule::kSlots> model({kPattern});
  const auto tensors = model.Tensors();
  auto large = tensors[0];
  large.size = kSize;
  std::vector<DeviceMemory> memory;
  for (int k = 0; k < kMostOperands; ++k) {
    if (large.operands[k] == nullptr) continue;
    const int64_t element = large.ElementSize(k);
    memory.push_back(AllocateOnDevice(kSize * element));
    if (memory.back() == nullptr) {
      std::printf("-      %s: skipped, too little memory\n", what.c_str());
      return;
    }
    large.operands[k] = memory.back().get();
    CopyToDevice(large.operands[k], tensors[0].operands[k], kPattern * element);
    RepeatOnDevice(large.operands[k], kPattern * element, kSize * element);
  }
  Launch<T, Case, Rule> launch({large});
  for (int t = 1; t <= 2; ++t) {
    const Numbers<Case> numbers = At<Case>(t, {});
    launch.Set(numbers);
    Require(launch(nullptr));
    StepOnHost<T, Case, Rule>(tensors, numbers);
    WaitForDevice();
  }

  bool same = true;
  for (int k = 0; k < kMostOperands; ++k) {
    if (large.operands[k] == nullptr) continue;
    const int64_t element = large.ElementSize(k);
    std::vector<char> got(kPattern * element);
    for (int64_t done = 0; done < kSize; done += kPattern) {
      const int64_t bytes = std::min(kPattern, kSize - done) * element;
      CopyFromDevice(got.data(),
                     static_cast<char*>(large.operands[k]) + done * element,
                     bytes);
      same =
          same && std::memcmp(got.data(), tensors[0].operands[k], bytes) == 0;
    }
  }
  Report(what, same);
}

template <typename T, typename Case, typename Rule>
void CheckRule(const std::string& name, const Modes& modes) {
  Report(name, StepsAreRight<T, Case, Rule>(modes, {}));
  if (modes.own != 0) return;
  for (const auto& [frame, stored] : Pairs(AllFrames(), AllStored<T, Rule>())) {
    std::string what = name;
    what += frame.update ? ", updating" : ", accumulating";
    if (frame.overwrite_with_average)
      what += ", overwriting, stochastic, maximize";
    if (stored.master_weights) what += ", master weights";
    if (stored.state == StateType::kBFloat16) what += ", bfloat16 state";
    if (stored.state == StateType::kFloat) what += ", float32 state";
    Report(what, StepsAreRight<T, Case, Rule>(modes, {true, frame, stored}));
  }
  if (modes.variant != 0) return;
  // More than a launch can describe.
  std::vector<int64_t> many(2000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i % 37;
  Steps<T, Case, Rule> steps(many, 0, false);
  Report(name + ", 2,000 tensors in " + std::to_string(steps.launches()) +
             " launches",
         steps.launches() > 3 && steps.Launched(At<Case>(1, modes)));
  Report(name + ", wrong numbers", RefusesWrongNumbers<T, Case, Rule>(modes));
}

template <typename T, typename Description>
void CheckType(const std::string& dtype) {
  using Case = tf_opt::Case<Description>;
  for (int own = 0; own < Case::kOwnModes; ++own) {
    if (brief && own != 0) continue;
    for (int variant = 0; variant < kVariants<Description>; ++variant) {
      const Modes modes = {variant, own};
      WithRule<Description, ComputeType<T>>(variant, [&](auto rule) {
        using Rule = typename decltype(rule)::type;
        // rows.cc checks what is by row.
        if constexpr (!Rule::kRowWise) {
          CheckRule<T, Case, Rule>(Case::Name(modes) + ", " + dtype, modes);
        }
      });
    }
  }
}

// What is measured of gradients, with special numbers and without.
template <typename T>
void CheckMeasures(const std::string& dtype) {
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
      const std::string name =
          "measures, " + dtype + ", " + std::to_string(tensors.size()) +
          " tensors" + (accumulated ? ", accumulated" : "") +
          (special ? ", special numbers" : "") +
          (unaligned ? ", unaligned" : "") + (enabled ? "" : ", disabled");
      DeviceMeasures<T> launched(tensors, 0.3, enabled, unaligned);
      Require(launched(nullptr));
      Report(name, launched.AreRight());
      DeviceMeasures<T> replayed(tensors, 0.3, enabled, unaligned);
      Graph graph([&](void* stream) { return replayed(stream); });
      graph.Replay();
      Report(name + ", CUDA graph", replayed.AreRight());
    }
  }
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
  const std::string device = DeviceName();
  if (device.empty()) {
    std::puts("No GPU was found: nothing was checked.");
    return 77;  // What test runners take for skipped.
  }
  std::printf("On: %s\n", device.c_str());
  ForEachRule([](auto description) {
    ForEachType([](auto type, const char* dtype) {
      CheckType<decltype(type), typename decltype(description)::type>(dtype);
    });
  });
  ForEachType([](auto type, const char* dtype) {
    CheckMeasures<decltype(type)>(dtype);
    if (!quick) CheckLarge<decltype(type)>(dtype);
  });
  std::printf("%d failed\n", failures);
  return failures != 0;
}
