// How fast a step is beside a copy that moves as many bytes, in turns.
//
//   speed ROUNDS WORKLOAD...
//
// A workload is its title, then after a tab the sizes of its tensors; or
// `tables`, for gradients of some rows of tables.
// Prints a line for each optimizer and workload, its columns separated by tabs:
// workload, case, launches, milliseconds of a step, and the bytes a second, in
// 10^9, of the step and of the copy. measure.py runs it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <new>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/gpu/device.h"
#include "tf_opt/cc/engines/gpu/apply_on_gpu.h"
#include "tf_opt/cc/engines/gpu/gpu_batch.h"
#include "tf_opt/cc/engines/step_arrays.h"
#include "tf_opt/cc/engines/storage_types.h"
#include "tf_opt/cc/rules/adam.h"
#include "tf_opt/cc/rules/all_rules.h"
#include "tf_opt/cc/rules/description.h"

namespace tf_opt {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int64_t SizeOf(ElementType type) {
  return WithElementType(
      type, [](auto tag) { return sizeof(typename decltype(tag)::type); });
}

// With the state of rows, if it is by row.
template <typename Description>
int CountSlots(int variant) {
  return WithRule<Description, float>(variant, [](auto rule) {
    return decltype(rule)::type::kSlots + decltype(rule)::type::kRowWise;
  });
}

// Times a step, which moves so many bytes, and prints a line that begins with
// `columns`. With ids, it is a step with each set of them, in a CUDA graph.
template <typename Description>
void Measure(const std::string& columns, GpuStep step, int64_t moved,
             int rounds, const std::vector<int32_t>& ids = {}) try {
  const int count = step.arrays.count();
  const int operands =
      kFrameOperandCount + CountSlots<Description>(step.variant);
  step.arrays.arrays.resize(operands * count);
  step.numbers.resize(sizeof(typename Description::Hyperparameters));
  const int64_t element = SizeOf(step.arrays.element);
  std::vector<DeviceMemory> memory;
  // Numbers between 1 and 2, or what looks like it in 16 bits.
  std::vector<uint16_t> pattern(1 << 19);
  for (uint16_t& x : pattern) x = 0x3f80 | (std::rand() & 0x7f);
  const auto add = [&](int64_t bytes) {
    memory.push_back(Allocate(bytes));
    char* const array = static_cast<char*>(memory.back().get());
    const int64_t copied = std::min<int64_t>(bytes, 2 * pattern.size());
    Copy(array, pattern.data(), copied);
    for (int64_t done = copied; done < bytes; done *= 2) {
      Copy(array + done, array, std::min(done, bytes - done));
    }
    return array;
  };
  for (int k = 0; k < operands; ++k) {
    const bool is_slot = k >= kFrameOperandCount;
    const bool exists =
        is_slot || k == kVariable || (k == kGradient && ids.empty());
    for (int i = 0; exists && i < count; ++i) {
      step.arrays.arrays[k * count + i].data =
          add(step.arrays.sizes[i] * (is_slot ? sizeof(float) : element));
    }
  }
  for (TableSlices& slices : step.slices) {
    slices.values = add(slices.count * step.arrays.widths[0] * element);
  }
  char* const all_ids = add((1 + ids.size()) * sizeof(int32_t));
  char* const own = add(sizeof(VariableInputs));
  char* const copied = add(moved);
  if (!ids.empty()) {
    Copy(all_ids, ids.data(), ids.size() * sizeof(int32_t));
  }
  const VariableInputs numbers;
  Copy(own, &numbers, sizeof(numbers));
  for (int k = 0; k < 4; ++k) {
    step.variables.inputs[k] = {
        static_cast<double*>(static_cast<void*>(own)) + k,
        /*one_for_all=*/true};
  }

  const int64_t sets = ids.empty() ? 1 : ids.size() / step.slices[0].count;
  const Work copies = [&](void* stream) {
    return CopyOnGpu(copied + moved / 2, copied, moved / 2, stream);
  };
  DeviceMemory workspace;  // As large for all steps.
  const auto allocate = [&](std::size_t bytes) {
    if (workspace == nullptr) workspace = Allocate(bytes);
    return workspace.get();
  };
  Work steps = [&](void* stream) {
    const char* error = nullptr;
    for (int64_t set = 0; set < sets && error == nullptr; ++set) {
      for (TableSlices& slices : step.slices) {
        slices.ids = all_ids + set * slices.count * sizeof(int32_t);
      }
      error = ApplyOnGpu<Description>(step, {stream, allocate});
    }
    return error;
  };
  Require(steps(nullptr));
  // The kernels alone, without the host.
  if (!ids.empty()) steps = Captured(steps);
  // Some milliseconds each time; the first round warms up.
  const int64_t repetitions =
      std::clamp<int64_t>((int64_t{8} << 30) / moved, 1, 50);
  std::vector<double> copy_times, step_times;
  for (int round = -1; round < rounds; ++round) {
    const double copy_time = TimeOnDevice(repetitions, copies);
    const double step_time =
        TimeOnDevice(std::max<int64_t>(repetitions / sets, 2), steps) / sets;
    if (round < 0) continue;
    copy_times.push_back(copy_time);
    step_times.push_back(step_time);
  }
  const double milliseconds = Median(step_times);
  std::printf("%s\t%.4f\t%.1f\t%.1f\n", columns.c_str(), milliseconds,
              moved / milliseconds / 1e6, moved / Median(copy_times) / 1e6);
  std::fflush(stdout);
} catch (const std::bad_alloc&) {
  std::printf("%s\tskipped: too little memory\n", columns.c_str());
}

// Every rule without and with its optional slots, if it has any.
void MeasureTensors(const std::string& workload,
                    const std::vector<int64_t>& sizes, int rounds) {
  const auto measure = [&](auto rule, const std::string& title,
                           ElementType element, int variant) {
    using Description = typename decltype(rule)::type;
    GpuStep step;
    step.variant = variant;
    step.arrays.element = element;
    step.arrays.sizes = sizes;
    const std::vector<DenseTensor<float>> tensors(sizes.size());
    const std::size_t launches = 1 + PlanGpuBatches(tensors).size();
    // The gradient is only read.
    const int64_t moved =
        std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) *
        (3 * SizeOf(element) +
         2 * sizeof(float) * CountSlots<Description>(variant));
    Measure<Description>(
        workload + "\t" + title + "\t" + std::to_string(launches), step, moved,
        rounds);
  };
  ForEachRule([&](auto rule) {
    using Description = typename decltype(rule)::type;
    const std::string op = Description::kOp;
    measure(rule, op, ElementType::kFloat, 0);
    constexpr int kAllSlots = kVariants<Description> - 1;
    // What is by row has no tensors.
    const bool has_tensors = WithRule<Description, float>(
        kAllSlots, [](auto all) { return !decltype(all)::type::kRowWise; });
    if (kAllSlots > 0 && has_tensors) {
      measure(rule, op + ", all slots", ElementType::kFloat, kAllSlots);
    }
  });
  measure(TypeTag<Adam>(), "Adam, bfloat16 variables", ElementType::kBFloat16,
          0);
}

// Steps with `count` rows of a table, in each step other ones.
struct RowWorkload {
  int64_t rows, width, count;
  const char* ids;  // "uniform", "zipf" or "one row".
};

// `form` is "lazy", "exact" or "row-wise".
template <typename Description>
void MeasureRows(const RowWorkload& workload, const char* form, int rounds) {
  const bool exact = form[0] == 'e', row_wise = form[0] == 'r';
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
  const int64_t slots = CountSlots<Description>(row_wise) *
                        (row_wise ? int64_t{sizeof(float)} : row);
  const int64_t moved =
      count * (sizeof(int32_t) + row) + occurring / sets * 2 * (row + slots);
  GpuStep step;
  step.variant = row_wise;
  step.arrays = {ElementType::kFloat, {rows * width}, {width}, {}};
  step.rows = {/*sparse=*/true, /*lazy=*/!exact};
  step.slices = {{nullptr, nullptr, count, nullptr, 0, false, rows}};
  Measure<Description>(std::to_string(rows) + " x " + std::to_string(width) +
                           ", " + std::to_string(count) + " " + kind + "\t" +
                           Description::kOp + ", " + form + "\t-",
                       step, moved, rounds, ids);
}

void MeasureTables(int rounds) {
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
      MeasureRows<Description>(workload, "lazy", rounds);
      if (op != "Adagrad") continue;
      MeasureRows<Description>(workload, "row-wise", rounds);
    }
    if (op != Adam::kOp) return;
    MeasureRows<Description>(workloads[3], "exact", rounds);
  });
}

}  // namespace
}  // namespace tf_opt

int main(int argc, char** argv) {
  using namespace tf_opt;
  if (argc < 3 || std::atoi(argv[1]) < 1) {
    std::fputs("usage: speed ROUNDS WORKLOAD...\n", stderr);
    return 2;
  }
  const int rounds = std::atoi(argv[1]);
  if (DeviceName().empty()) {
    std::fputs("No GPU was found.\n", stderr);
    return 77;
  }
  for (int i = 2; i < argc; ++i) {
    const std::string workload = argv[i];
    if (workload == "tables") {
      MeasureTables(rounds);
      continue;
    }
    const std::size_t tab = workload.find('\t');
    std::istringstream sizes(workload.substr(tab + 1));
    MeasureTensors(workload.substr(0, tab),
                   {std::istream_iterator<int64_t>(sizes), {}}, rounds);
  }
}
