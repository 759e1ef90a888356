// How fast a step is beside a copy that moves as many bytes, in turns.
//
//   speed ROUNDS < WORKLOADS
//   speed ROUNDS --rows
//
// A workload is a line: its title, then after a tab the sizes of its tensors.
// With --rows, workloads are gradients of some rows of a table.
// Prints a line for each optimizer and workload, its columns separated by tabs:
// workload, case, launches, milliseconds of a step, and the bytes a second, in
// 10^9, of the step and of the copy. measure.py runs it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/gpu/cases.h"
#include "tests/gpu/device.h"
#include "tests/gpu/launch.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/all_rules.h"
#include "tf_opt/cc/rules/description.h"

namespace tf_opt {
namespace {

struct Workload {
  std::string title;
  std::vector<int64_t> sizes;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle]
                           : (values[middle - 1] + values[middle]) / 2;
}

// Fills memory with numbers between 1 and 2, or what looks like it in 16 bits.
void FillWithNumbers(const DeviceMemory& memory, int64_t bytes) {
  std::vector<uint16_t> numbers(std::min<int64_t>(bytes, 1 << 20) / 2 + 1);
  for (uint16_t& number : numbers) number = 0x3f80 | (std::rand() & 0x7f);
  const int64_t pattern = std::min<int64_t>(bytes, 2 * numbers.size());
  CopyToDevice(memory.get(), numbers.data(), pattern);
  RepeatOnDevice(memory.get(), pattern, bytes);
}

// A variable, its gradient and its slots.
template <typename Rule, typename Use>
void ForOperands(const Use& use) {
  use(kVariable);
  use(kGradient);
  for (int k = 0; k < Rule::kSlots; ++k) use(kFrameOperandCount + k);
}

template <typename T, typename Case, typename Rule>
void Measure(const char* title, const Workload& workload, int rounds) {
  // Aligned as TensorFlow and PyTorch align tensors.
  constexpr int64_t kAlignment = 256;
  std::vector<DenseTensor<T>> tensors;
  std::vector<int64_t> begins;
  int64_t arena_bytes = 0, moved = 0;
  for (const int64_t size : workload.sizes) {
    tensors.push_back({.size = size});
    ForOperands<Rule>([&](int operand) {
      const int64_t bytes = size * tensors.back().ElementSize(operand);
      begins.push_back(arena_bytes);
      arena_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      // The gradient is only read.
      moved += operand == kGradient ? bytes : 2 * bytes;
    });
  }
  // The copy is from one half of the same memory to the other.
  arena_bytes = std::max(arena_bytes, moved);
  const DeviceMemory arena = AllocateOnDevice(arena_bytes);
  if (arena == nullptr) {
    std::printf("%s\t%s\tskipped: too little memory\n", workload.title.c_str(),
                title);
    return;
  }
  FillWithNumbers(arena, arena_bytes);
  char* const memory = static_cast<char*>(arena.get());
  std::size_t array = 0;
  for (auto& tensor : tensors) {
    ForOperands<Rule>([&](int operand) {
      tensor.operands[operand] = memory + begins[array++];
    });
  }
  Launch<T, Case, Rule> launch(std::move(tensors));
  launch.Set({Case::At(3, {})});
  const Work copy = [&](void* stream) {
    return CopyOnGpu(memory + moved / 2, memory, moved / 2, stream);
  };
  const Work step = [&](void* stream) { return launch(stream); };

  // Some milliseconds each time; the first round warms up.
  const int repetitions =
      std::clamp<int64_t>((int64_t{8} << 30) / moved, 1, 50);
  std::vector<double> copies, steps;
  for (int round = -1; round < rounds; ++round) {
    const double copy_time = TimeOnDevice(repetitions, copy);
    const double step_time = TimeOnDevice(repetitions, step);
    if (round < 0) continue;
    copies.push_back(copy_time);
    steps.push_back(step_time);
  }
  const double milliseconds = Median(steps);
  std::printf("%s\t%s\t%lld\t%.4f\t%.1f\t%.1f\n", workload.title.c_str(), title,
              static_cast<long long>(launch.launches()), milliseconds,
              moved / milliseconds / 1e6, moved / Median(copies) / 1e6);
  std::fflush(stdout);
}

template <typename T, typename Description, int kVariant>
void Measure(const std::string& title, const Workload& workload, int rounds) {
  Measure<T, Case<Description>, RuleOf<Description, ComputeType<T>, kVariant>>(
      title.c_str(), workload, rounds);
}

// Every rule without and with its optional slots, if it has any.
void MeasureAll(const Workload& workload, int rounds) {
  ForEachRule([&](auto description) {
    using Description = typename decltype(description)::type;
    const std::string op = Description::kOp;
    Measure<float, Description, 0>(op, workload, rounds);
    constexpr int kAllSlots = kVariants<Description> - 1;
    // What is by row has no tensors.
    if constexpr (kAllSlots > 0 &&
                  !RuleOf<Description, float, kAllSlots>::kRowWise) {
      Measure<float, Description, kAllSlots>(op + ", all slots", workload,
                                             rounds);
    }
  });
  Measure<BFloat16, Adam, 0>("Adam, bfloat16 variables", workload, rounds);
}

// Steps with `count` rows of a table, in each step other ones.
struct RowWorkload {
  int64_t rows, width, count;
  const char* ids;  // "uniform", "zipf" or "one row".
};

template <typename Description>
void MeasureRows(const RowWorkload& workload, bool exact, int rounds) {
  constexpr int kSlots = RuleOf<Description, float, 0>::kSlots;
  const auto [rows, width, count, kind] = workload;
  const int64_t sets = std::max<int64_t>(1, (1 << 19) / count);
  std::mt19937_64 random;
  std::vector<int32_t> ids(sets * count);
  int64_t occurring = 0;
  for (int64_t set = 0; set < sets; ++set) {
    std::unordered_set<int32_t> different;
    for (int64_t k = 0; k < count; ++k) {
      const double x = random() * 0x1p-64;
      const int64_t rank = kind[0] == 'o'   ? 7
                           : kind[0] == 'z' ? std::pow(rows, x) - 1
                                            : rows * x;
      // Frequent rows aren't neighbours: 6,180,339 and 10^n have no divisor.
      const int32_t id = rank * 6180339 % rows;
      ids[set * count + k] = id;
      different.insert(id);
    }
    occurring += exact ? rows : different.size();
  }
  const int64_t row = width * sizeof(float);
  const int64_t moved = count * (sizeof(int32_t) + row) +
                        occurring / sets * row * 2 * (1 + kSlots);

  const int64_t array = rows * row;
  const int64_t bytes = std::max(moved, (1 + kSlots) * array + count * row);
  const DeviceMemory memory = AllocateOnDevice(bytes);
  const DeviceMemory all_ids = AllocateOnDevice(ids.size() * sizeof(int32_t));
  const DeviceMemory own = AllocateOnDevice(sizeof(VariableInputs));
  GpuStep step;
  step.arrays = {ElementType::kFloat,
                 {rows * width},
                 {width},
                 std::vector<StepArray>(kFrameOperandCount + kSlots)};
  step.rows = {/*sparse=*/true, /*lazy=*/!exact};
  step.slices = {{nullptr, nullptr, count, nullptr, 0, false, rows}};
  const DeviceMemory workspace =
      AllocateOnDevice(GpuWorkspaceBytes<Description>(step));
  const std::string name = std::to_string(rows) + " x " +
                           std::to_string(width) + ", " +
                           std::to_string(count) + " " + kind + "\t" +
                           Description::kOp + (exact ? ", exact" : ", lazy");
  if (memory == nullptr || workspace == nullptr) {
    std::printf("%s\tskipped: too little memory\n", name.c_str());
    return;
  }
  FillWithNumbers(memory, bytes);
  CopyToDevice(all_ids.get(), ids.data(), ids.size() * sizeof(int32_t));
  const VariableInputs numbers;
  CopyToDevice(own.get(), &numbers, sizeof(numbers));
  for (int k = 0; k < 4; ++k) {
    step.variables.inputs[k].numbers = static_cast<double*>(own.get()) + k;
  }
  char* const begin = static_cast<char*>(memory.get());
  step.arrays.arrays[kVariable].data = begin;
  for (int k = 0; k < kSlots; ++k) {
    step.arrays.arrays[kFrameOperandCount + k].data = begin + (1 + k) * array;
  }
  step.slices[0].values = begin + (1 + kSlots) * array;

  const Work copies = [&](void* stream) {
    return CopyOnGpu(begin + moved / 2, begin, moved / 2, stream);
  };
  const Work steps = [&](void* stream) {
    const char* error = nullptr;
    for (int64_t set = 0; set < sets && error == nullptr; ++set) {
      step.slices[0].ids = static_cast<int32_t*>(all_ids.get()) + set * count;
      error = ApplyOnGpu<Description>(step, workspace.get(), stream);
    }
    return error;
  };
  // The kernels alone, without the host.
  Graph graph(steps);
  std::vector<double> copy_times, step_times;
  for (int round = -1; round < rounds; ++round) {
    const double copy_time = TimeOnDevice(10, copies);
    const double step_time = TimeOnDevice(2, std::ref(graph)) / sets;
    if (round < 0) continue;
    copy_times.push_back(copy_time);
    step_times.push_back(step_time);
  }
  const double milliseconds = Median(step_times);
  std::printf("%s\t-\t%.4f\t%.1f\t%.1f\n", name.c_str(), milliseconds,
              moved / milliseconds / 1e6, moved / Median(copy_times) / 1e6);
  std::fflush(stdout);
}

void MeasureAllRows(int rounds) {
  constexpr int64_t kM = 1000000;
  const RowWorkload workloads[] = {
      {10 * kM, 64, kM, "uniform"},    {10 * kM, 128, kM, "uniform"},
      {10 * kM, 64, 65536, "uniform"}, {10 * kM, 64, 65536, "zipf"},
      {kM, 64, 4096, "zipf"},          {kM, 64, 20000, "one row"}};
  ForEachRule([&](auto rule) {
    using Description = typename decltype(rule)::type;
    const std::string op = Description::kOp;
    if (op != Adam::kOp && op != "Adagrad" && op != "SGD") return;
    for (const RowWorkload& workload : workloads) {
      MeasureRows<Description>(workload, /*exact=*/false, rounds);
    }
    if (op == Adam::kOp) MeasureRows<Description>(workloads[3], true, rounds);
  });
}

}  // namespace
}  // namespace tf_opt

int main(int argc, char** argv) {
  using namespace tf_opt;
  const bool rows = argc == 3 && std::strcmp(argv[2], "--rows") == 0;
  if (argc != 2 + rows || std::atoi(argv[1]) < 1) {
    std::fputs("usage: speed ROUNDS [--rows] < WORKLOADS\n", stderr);
    return 2;
  }
  const int rounds = std::atoi(argv[1]);
  if (DeviceName().empty()) {
    std::fputs("No GPU was found.\n", stderr);
    return 77;
  }
  if (rows) MeasureAllRows(rounds);
  for (std::string line; !rows && std::getline(std::cin, line);) {
    Workload workload;
    const std::size_t tab = line.find('\t');
    workload.title = line.substr(0, tab);
    std::istringstream sizes(line.substr(tab + 1));
    for (int64_t size; sizes >> size;) workload.sizes.push_back(size);
    MeasureAll(workload, rounds);
  }
}
